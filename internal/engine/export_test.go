package engine

import "time"

// An outage is reported when a node stops: on a busy machine its parts may be far apart.
func init() { outagePause, outageLimit = time.Hour, time.Hour }
