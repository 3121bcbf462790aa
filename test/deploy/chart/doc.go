// Package chart tests the Helm chart in deploy/helm. Most of its tests need the programs that make test-chart builds, and
// are skipped without them.
package chart
