package oracle_test

import "time"

// How far around a transition an expression is compared: far enough for a few occurrences on both sides.
const (
	days   = 40 * time.Hour
	months = 35 * 24 * time.Hour
	hours  = 3 * time.Hour
)

// expressions are tried at every transition of every zone.
var expressions = []struct {
	reach time.Duration
	texts []string
}{
	{days, []string{
		// Fixed, once a day, around the usual hours of change.
		"0 0 * * *", "1 0 * * *", "30 0 * * *", "0 1 * * *", "30 1 * * *", "59 1 * * *", "0 2 * * *", "30 2 * * *",
		"59 2 * * *", "0 3 * * *", "30 3 * * *", "15 4 * * *", "30 5 * * *", "0 9 * * *", "30 23 * * *", "59 23 * * *",
		"@daily", "@midnight",
		// Fixed, several times a day: lists, ranges, steps, wraps.
		"0 0-23 * * *", "0,30 2 * * *", "15,45 1-3 * * *", "0 2,3 * * *", "0 22-2 * * *", "30 23-3/2 * * *",
		"50-10/10 2 * * *", "5/20 1 * * *", "0-59/30 0-23/3 * * *", "10 0/6 * * *", "0,*/20 2 * * *",
		"59 0,1,2,3,23 * * *",
		// Elapsed.
		"*/15 * * * *", "0 * * * *", "@hourly", "*/15 2 * * *", "0 */6 * * *", "30 */2 * * *", "*/20 22-2 * * *",
		"*/30 1,2 * * SUN", "7 * * * 1-5", "*/10 0 * * *",
		// Seconds.
		"15 0 2 * * *", "*/20 30 2 * * *", "59 59 1 * * *", "0 0 0 * * *", "5,35 15 1-3 * * *", "50-10/10 0 3 * * *",
		"30 */30 * * * *", "*/30 59 * * * *",
		// Days of the week.
		"0 9 * * 1-5", "30 2 * * 1-5", "30 2 * * SUN", "30 1 * * FRI-MON", "0 0 * * sat,7", "45 2 ? * 6-7",
		"0 0 */2 * MON", "0 2 */2 * 0", "30 2 1-7 * */7",
	}},
	{months, []string{
		"@weekly", "@monthly", "@yearly", "0 0 L * *", "0 0 L-3 * *", "30 2 15W * *", "0 2 LW * *", "30 1 1W * *",
		"0 3 31W * *", "30 2 * * 0#2", "30 2 * * SUN#1", "30 1 * * 0L", "30 1 * * SUN#L", "0 0 * * sun#1",
		"0 2 * * 0#3",
		"0 0 * * SAT#L", "0 0 * * 4#5", "0 0 * * FRI#L", "30 2 1 * *", "0 12 1,15 * *", "30 2 28-3 * *",
		"0 0 25-5/3 * *",
		"0 0 * MAR,Nov SUN", "30 2 * nov-feb *", "0 2 * 3/4 0", "0 0 13 * FRI", "30 2 1,L * MON#1", "0 0 29 2 *",
		"0 0 30 12 *", "15 30 2 8-14 MAR *", "30 2 8 3 *", "30 1 1-7 11 0", "0 0 1,15 * WED", "*/30 2 L * *",
		"0 */12 15W * *",
	}},
	// So frequent that a few hours contain thousands.
	{hours, []string{
		"* * * * *", "*/10 * * * * *", "*/15 0-59/2 1-3 * * *", "0-5 * 0,1,2,3 * * *",
	}},
}
