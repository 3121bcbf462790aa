package oracle_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/oracle"
)

// TestDSTRandomExpressions generates expressions from the whole grammar, because the list in
// expressions_test.go contains only what someone thought of.
func TestDSTRandomExpressions(t *testing.T) {
	t.Parallel()
	names, err := oracle.Zones()
	require.NoError(t, err)
	rounds, perRound := 8, 20
	if os.Getenv("BELFRY_DST") == "full" {
		rounds, perRound = 800, 50
	}
	var total tally
	refused := 0
	random := rand.New(rand.NewPCG(sampleSeed, 1))
	for range rounds {
		zone := names[random.IntN(len(names))]
		comparison := newComparison(t, &total, zone)
		year := firstYear + random.IntN(lastYear-firstYear+1)
		moments := slices.Concat(oracle.Transitions(comparison.loc, year, year), ordinaryMoments(comparison.loc))
		var subjects []subject
		for len(subjects) < perRound {
			expr, reach := randomExpression(random)
			options := oracle.AllDST()[random.IntN(len(oracle.AllDST())):][:1]
			s, err := newSubject(expr, reach, zone, options)
			if err == nil {
				subjects = append(subjects, s)
				continue
			}
			refused++
			require.False(t, everOccurs(t, expr), "%s was refused, but has dates: %v", expr, err)
		}
		comparison.around(moments[0], subjects)
	}
	t.Logf("random expressions=%d refused as impossible=%d sequences=%d occurrences=%d differences=%d",
		rounds*perRound, refused, total.sequences.Load(), total.occurrences.Load(), total.differences.Load())
}

// everOccurs tries each date of the 400 years after which the calendar repeats.
func everOccurs(t *testing.T, expr string) bool {
	t.Helper()
	cron, err := oracle.Parse(expr)
	require.NoError(t, err)
	for day := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2400; day = day.AddDate(0, 0, 1) {
		if cron.OnDate(day.Date()) {
			return true
		}
	}
	return false
}

// randomExpression also returns how far the comparison may reach before there is too much to compare.
func randomExpression(random *rand.Rand) (expr string, reach time.Duration) {
	reach = months
	var fields []string
	if random.IntN(4) == 0 {
		fields = append(fields, randomList(random, 0, 59, nil))
		reach = hours
	}
	minute, hour := fmt.Sprint(random.IntN(60)), fmt.Sprint(random.IntN(5))
	if random.IntN(2) == 0 {
		minute, hour = randomList(random, 0, 59, nil), randomList(random, 0, 23, nil)
		reach = min(reach, days)
	}
	dom, month, dow := "*", "*", "*"
	if random.IntN(2) == 0 {
		dom = randomDays(random, 1, 31, nil, []string{"L", "LW", "?", "L-%d", "%dW"})
	}
	if random.IntN(3) == 0 {
		month = randomList(random, 1, 12, strings.Fields("JAN feb Mar apr MAY jun jul AUG sep Oct nov DEC"))
	}
	if random.IntN(2) == 0 {
		names := strings.Fields("sun MON Tue wed THU fri Sat")
		name := names[random.IntN(len(names))]
		dow = randomDays(random, 0, 6, names, []string{
			"7", "?", "%dL", "%d#L", name + "L", name + "#L", name + "#2", "%d#1", "%d#5", "5-7", "7-2", "0-7/3",
		})
	}
	return strings.Join(append(fields, minute, hour, dom, month, dow), " "), reach
}

// randomDays returns a list in which some items have special forms.
func randomDays(random *rand.Rand, low, high int, names, special []string) string {
	items := strings.Split(randomList(random, low, high, names), ",")
	if random.IntN(2) == 0 {
		form := special[random.IntN(len(special))]
		if strings.Contains(form, "%d") {
			form = fmt.Sprintf(form, low+random.IntN(high-low))
		}
		items[random.IntN(len(items))] = form
	}
	return strings.Join(items, ",")
}

func randomList(random *rand.Rand, low, high int, names []string) string {
	value := func() string {
		v := low + random.IntN(high-low+1)
		if names != nil && random.IntN(2) == 0 {
			return names[v-low]
		}
		return fmt.Sprint(v)
	}
	var items []string
	for range 1 + random.IntN(3) {
		step := 1 + random.IntN((high-low)/2)
		switch random.IntN(6) {
		case 0:
			items = append(items, value()+"-"+value())
		case 1:
			items = append(items, fmt.Sprintf("%s-%s/%d", value(), value(), step))
		case 2:
			items = append(items, fmt.Sprintf("%s/%d", value(), step))
		case 3:
			items = append(items, fmt.Sprintf("*/%d", step))
		default:
			items = append(items, value())
		}
	}
	return strings.Join(items, ",")
}
