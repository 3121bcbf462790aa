package expr

import (
	"strings"

	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// functionCost is the cost of one call of a function in strings.go. They accept only short strings, so one number is
// enough.
const functionCost uint64 = 100

// usual gives CEL the cost of our functions, and usual sizes of values that are unknown before a run.
type usual struct{}

// EstimateCallCost is for CEL.
func (usual) EstimateCallCost(_, overload string, _ *cost.AstNode, _ []cost.AstNode) *cost.CallEstimate {
	if !ours(overload) {
		return nil
	}
	size := cost.SizeEstimate{Max: usualText}
	return &cost.CallEstimate{CostEstimate: cost.FixedCostEstimate(functionCost), ResultSize: &size}
}

// CallCost is for CEL. CEL counts each call on a payload, whose types are unknown, as one unit, however long the
// strings are. So all calls are counted here.
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
			if function == operators.Equals || function == operators.NotEquals ||
				function == operators.In && arg == args[0] {
				n += costLimit / 2 // its elements may be of any size: allow two such comparisons
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
