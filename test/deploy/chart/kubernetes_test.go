package chart

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	image     = "registry.example.com/belfry"
	space     = "/api/v1/namespaces/jobs"
	apps      = "/apis/apps/v1/namespaces/jobs"
	jobs      = "/apis/batch/v1/namespaces/jobs/jobs"
	nodes     = "labelSelector=app.kubernetes.io/component=node"
	patience  = "--timeout=5m" // only ends a hang
	namespace = "--namespace=jobs"
)

// TestKubernetes installs, upgrades and rolls back the chart on a real API of Kubernetes, in a namespace that admits only
// restricted pods.
func TestKubernetes(t *testing.T) { // its steps follow each other
	c := startCluster(t)
	c.create("/api/v1/namespaces", `{"metadata": {"name": "jobs", "labels": {
"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"}}}`)
	c.createKinds()
	step := func(name string, do func(*cluster)) {
		if t.Failed() {
			return
		}
		t.Run(name, func(t *testing.T) {
			mine := *c
			mine.t = t
			do(&mine)
		})
	}
	step("the namespace admits only restricted pods", (*cluster).refusesPrivileged)
	step("every object passes strict validation", (*cluster).validates)
	step("install", (*cluster).installs)
	step("helm test", (*cluster).tests)
	step("the same again changes nothing", (*cluster).repeats)
	step("upgrade", (*cluster).upgrades)
	step("upgrade to an image that is missing", (*cluster).failsToUpgrade)
	step("rollback", (*cluster).rollsBack)
	step("uninstall", (*cluster).uninstalls)
	step("the guide", (*cluster).followsGuide)
}

// createKinds creates the kinds of the Prometheus Operator.
func (c *cluster) createKinds() {
	c.t.Helper()
	for _, plural := range []string{"servicemonitors", "prometheusrules"} {
		var crd object
		readYAML(c.t, kindFile(c.t, plural), &crd)
		text, err := json.Marshal(crd)
		require.NoError(c.t, err)
		path := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		c.create(path, string(text))
		c.await(plural+" are established", func() bool {
			return condition(c.get(path+"/"+plural+".monitoring.coreos.com"), "Established") == "True"
		})
	}
}

func (c *cluster) refusesPrivileged() {
	status, answer := c.try(http.MethodPost, space+"/pods",
		[]byte(`{"metadata": {"name": "root"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}`))
	require.Equal(c.t, http.StatusForbidden, status)
	require.Contains(c.t, answer["message"], `violates PodSecurity "restricted:latest"`)
}

// collections of the API, by kind.
var collections = map[string]string{
	"Deployment": apps + "/deployments", "Job": jobs, "ConfigMap": space + "/configmaps", "Service": space + "/services",
	"Pod": space + "/pods", "ServiceAccount": space + "/serviceaccounts",
	"PodDisruptionBudget": "/apis/policy/v1/namespaces/jobs/poddisruptionbudgets",
	"NetworkPolicy":       "/apis/networking.k8s.io/v1/namespaces/jobs/networkpolicies",
	"ServiceMonitor":      "/apis/monitoring.coreos.com/v1/namespaces/jobs/servicemonitors",
	"PrometheusRule":      "/apis/monitoring.coreos.com/v1/namespaces/jobs/prometheusrules",
}

// validates sends each object to the server, which validates it, admits it and does not store it. A field that the server
// does not know is an error, and so is a warning about the level restricted.
func (c *cluster) validates() {
	c.await("the namespace has its account", func() bool {
		status, _ := c.try(http.MethodGet, space+"/serviceaccounts/default", nil)
		return status == http.StatusOK
	})
	for _, values := range []string{minimal, full} {
		objects := render(c.t, "--values", values, "--set", "priorityClassName=")
		for name, o := range objects {
			if o["kind"] == "Pod" {
				at(o, "spec").(object)["serviceAccountName"] = "default" // its own is not stored
			}
			text, err := json.Marshal(o)
			require.NoError(c.t, err)
			path := collections[o["kind"].(string)]
			require.NotEmpty(c.t, path, name)
			status, answer := c.try(http.MethodPost, path+"?dryRun=All&fieldValidation=Strict", text)
			require.Equal(c.t, http.StatusCreated, status, "%s: %v", name, answer)
		}
		c.t.Logf("%s: %d objects accepted", filepath.Base(values), len(objects))
	}
}

func (c *cluster) change(verb, tag string, args ...string) (string, error) {
	c.t.Helper()
	return c.helm(append([]string{
		verb, "belfry", directory, namespace, "--values", minimal, "--wait", patience,
		"--set", "image.tag=" + tag + ",metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true," +
			"metrics.dashboards.enabled=true",
	}, args...)...)
}

func (c *cluster) installs() {
	output, err := c.change("install", "v1")
	require.NoError(c.t, err, output)
	c.requireRunning("v1")
	zones := map[any]int{}
	for _, p := range c.list(space + "/pods?" + nodes) {
		machine := c.get("/api/v1/nodes/" + at(p, "spec", "nodeName").(string))
		zones[at(machine, "metadata", "labels", "topology.kubernetes.io/zone")]++
	}
	require.Len(c.t, zones, 3, "one node in each zone: %v", zones)
	c.t.Logf("3 nodes in zones %v", zones)
	c.await("one node may be evicted", func() bool {
		budget := c.get(collections["PodDisruptionBudget"] + "/belfry")
		return at(budget, "status", "currentHealthy") == 3.0 && at(budget, "status", "disruptionsAllowed") == 1.0
	})
	deployment := c.get(apps + "/deployments/belfry")
	managers := map[string]bool{}
	for _, m := range at(deployment, "metadata", "managedFields").([]any) {
		managers[fmt.Sprint(at(m, "manager"), " ", at(m, "operation"))] = true
	}
	require.True(c.t, managers["helm Apply"], "server-side apply: %v", managers)
}

// requireRunning: three nodes of a version are available and the Job of that version has ended; no other is there.
func (c *cluster) requireRunning(tag string) {
	c.t.Helper()
	deployment := c.get(apps + "/deployments/belfry")
	require.EqualValues(c.t, 3, at(deployment, "status", "availableReplicas"))
	require.EqualValues(c.t, 3, at(deployment, "status", "updatedReplicas"))
	c.await("the pods of other versions are gone", func() bool { return len(c.list(space+"/pods?"+nodes)) == 3 })
	for _, p := range c.list(space + "/pods?" + nodes) {
		require.Equal(c.t, image+":"+tag, at(at(p, "spec", "containers").([]any)[0], "image"))
	}
	job := c.job()
	require.Equal(c.t, image+":"+tag, at(at(job, "spec", "template", "spec", "containers").([]any)[0], "image"))
	c.await("the migration has ended", func() bool { return condition(c.job(), "Complete") == "True" })
	c.t.Logf("version %s: 3 nodes available, %s complete", tag, at(job, "metadata", "name"))
}

// job returns the only Job.
func (c *cluster) job() object {
	c.t.Helper()
	c.await("one Job is left", func() bool { return len(c.list(jobs)) == 1 })
	return c.list(jobs)[0]
}

func (c *cluster) tests() {
	c.t.Log(strings.TrimSpace(c.mustHelm("test", "belfry", namespace, patience)))
	require.Equal(c.t, "Succeeded", at(c.get(space+"/pods/belfry-doctor"), "status", "phase"))
}

func (c *cluster) repeats() {
	job, deployment := c.job(), c.get(apps+"/deployments/belfry")
	output, err := c.change("upgrade", "v1")
	require.NoError(c.t, err, output)
	require.Equal(c.t, at(job, "metadata", "uid"), at(c.job(), "metadata", "uid"), "it migrates again")
	again := c.get(apps + "/deployments/belfry")
	require.Equal(c.t, at(deployment, "metadata", "generation"), at(again, "metadata", "generation"))
}

// upgrades replaces the nodes while a watch sees each state: never fewer than three are available, and never more than
// four are there.
func (c *cluster) upgrades() {
	version := at(c.get(apps+"/deployments/belfry"), "metadata", "resourceVersion").(string)
	output, err := c.change("upgrade", "v2")
	require.NoError(c.t, err, output)
	c.requireRunning("v2")
	seen := c.watchDeployment(version)
	require.GreaterOrEqual(c.t, len(seen), 3, "the watch sees the steps")
	for _, d := range seen {
		require.GreaterOrEqual(c.t, at(d, "status", "availableReplicas"), 3.0)
		require.LessOrEqual(c.t, at(d, "status", "replicas"), 4.0)
	}
	c.t.Logf("%d states of the Deployment, none with fewer than 3 available or more than 4 nodes", len(seen))
}

// watchDeployment returns the states of the Deployment since a version, until it is complete.
func (c *cluster) watchDeployment(version string) (seen []object) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.url+apps+
		"/deployments?watch=1&fieldSelector=metadata.name=belfry&timeoutSeconds=5&resourceVersion="+version, nil)
	require.NoError(c.t, err)
	request.Header.Set("Authorization", "Bearer "+adminToken)
	response, err := c.client.Do(request)
	require.NoError(c.t, err)
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var event struct {
			Type   string `json:"type"`
			Object object `json:"object"`
		}
		require.NoError(c.t, json.Unmarshal(lines.Bytes(), &event))
		require.Equal(c.t, "MODIFIED", event.Type, "%v", event.Object)
		seen = append(seen, event.Object)
	}
	require.NoError(c.t, lines.Err())
	return seen
}

// failsToUpgrade: the new node never becomes ready, so the old ones stay, and Helm goes back by itself.
func (c *cluster) failsToUpgrade() {
	output, err := c.change("upgrade", "missing", "--timeout=20s", "--rollback-on-failure")
	require.Error(c.t, err, output)
	c.await("Helm has gone back", func() bool {
		d := c.get(apps + "/deployments/belfry")
		return at(d, "status", "observedGeneration") == at(d, "metadata", "generation") &&
			at(d, "status", "updatedReplicas") == 3.0 && at(d, "status", "replicas") == 3.0
	})
	c.requireRunning("v2")
	require.EqualValues(c.t, 3, at(c.get(apps+"/deployments/belfry"), "status", "availableReplicas"))
}

func (c *cluster) rollsBack() {
	c.mustHelm("rollback", "belfry", "1", namespace, "--wait", patience)
	c.requireRunning("v1")
	c.t.Log(strings.TrimSpace(c.mustHelm("history", "belfry", namespace)))
}

func (c *cluster) uninstalls() {
	c.mustHelm("uninstall", "belfry", namespace, "--wait", patience)
	for kind, path := range collections {
		c.await("no "+kind+" is left", func() bool {
			return len(c.list(path+"?labelSelector=app.kubernetes.io/instance=belfry,app.kubernetes.io/component!=doctor")) == 0
		})
	}
}

// followsGuide runs the commands of docs/guide/kubernetes.md that are marked as "sh kubernetes", in one shell.
func (c *cluster) followsGuide() {
	script := strings.Join(guideBlocks(c.t, "sh kubernetes"), "")
	require.Positive(c.t, strings.Count(script, "helm install"))
	c.write("values.yaml", guideBlocks(c.t, "yaml helm")[0])
	c.write("owner-url", "postgres://belfry_owner:x@db.example.com/belfry")
	c.write("database-url", "postgres://belfry_server:x@db.example.com/belfry")
	repository, err := filepath.Abs(root)
	require.NoError(c.t, err)
	require.NoError(c.t, os.Symlink(filepath.Join(repository, "deploy"), c.path("deploy")))
	must(c.t, "go", "build", "-C", repository, "-o", c.path("belfry"), "./cmd/belfry")
	path := strings.Join([]string{c.dir, filepath.Dir(tool(c.t, "helm")), c.programs, os.Getenv("PATH")}, ":")
	c.t.Log(must(c.t, "env", "-C", c.dir, "PATH="+path, "KUBECONFIG="+c.path("kubeconfig"), "bash", "-euxo", "pipefail", "-c", script))
	for _, name := range []string{"owner", "database", "keyset"} {
		require.True(c.t, slices.ContainsFunc(c.list("/api/v1/namespaces/belfry/secrets"), func(s object) bool {
			return at(s, "metadata", "name") == "belfry-"+name
		}), name)
	}
}
