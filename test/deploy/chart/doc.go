// Package chart tests the Helm chart in deploy/helm. Most of its tests need the programs that make test-chart and
// make test-helm build, and are skipped without them.
package chart
