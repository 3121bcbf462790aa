package expr

import (
	"strings"

	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// functionCost is that of one call of the functions in strings.go: they take
// short texts, so that one number does.
const functionCost uint64 = 100

// usual knows what CEL does not: the cost of our functions, and the sizes of what
// is unknown before a run.
type usual struct{}

// EstimateCallCost is for CEL.
func (usual) EstimateCallCost(_, overload string, _ *cost.AstNode, _ []cost.AstNode) *cost.CallEstimate {
	if !ours(overload) {
		return nil
	}
	size := cost.SizeEstimate{Max: usualText}
	return &cost.CallEstimate{CostEstimate: cost.FixedCostEstimate(functionCost), ResultSize: &size}
}

// CallCost is for CEL. Of calls on a payload, whose types are not known before,
// CEL takes each for one unit, however long the texts: so all are counted here.
func (usual) CallCost(function, overload string, args []ref.Val, _ ref.Val) *uint64 {
	n := uint64(1)
	if ours(overload) {
		n = functionCost
	}
	for _, arg := range args {
		switch v := arg.(type) {
		case types.String:
			n += uint64(len(v)) / 10
		case types.Bytes:
			n += uint64(len(v)) / 10
		case traits.Sizer: // a list or an object
			size, _ := v.Size().(types.Int)
			n += uint64(size)
			if function == operators.Equals || function == operators.NotEquals || function == operators.In && arg == args[0] {
				n += costLimit / 2 // what is in it may be anything: two such comparisons, and no more
			}
		}
	}
	return &n
}

func ours(overload string) bool { return strings.HasPrefix(overload, "belfry_") }

// EstimateSize is for CEL.
func (usual) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	if node.ComputedSize() != nil {
		return nil // known from the expression
	}
	switch node.Type().Kind() {
	case types.StringKind, types.BytesKind:
		return &cost.SizeEstimate{Max: usualText}
	case types.ListKind, types.MapKind, types.DynKind:
		return &cost.SizeEstimate{Max: usualList}
	default:
		return nil
	}
}
