// Package admin holds the client commands about a server and a namespace as a whole: queues, the load, keys, secrets,
// quotas, the audit log, the cluster and versions.
package admin

import "github.com/spf13/cobra"

// Commands returns the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newQueue(), newLoad(), newKey(), newSession(), newSecret(), newQuota(), newAudit(), newCluster(), newVersion(),
	}
}
