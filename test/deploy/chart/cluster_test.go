package chart

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cluster is a real API of Kubernetes with its controllers and scheduler. kwok plays the machines: pods get the state that
// a kubelet would report, and no container runs.
type cluster struct {
	t        *testing.T
	dir      string // of this test
	programs string
	url      string
	client   *http.Client
}

const adminToken = "test"

// limit only ends a hang.
const limit = 3 * time.Minute

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := startAPI(t)
	loopback := []string{"--kubeconfig=" + c.path("kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1"}
	c.start("kube-controller-manager", append(loopback, "--secure-port="+freePort(t),
		"--service-account-private-key-file="+c.path("sa.key"))...)
	c.start("kube-scheduler", append(loopback, "--secure-port="+freePort(t))...)
	c.startMachines()
	return c
}

// startAPI starts etcd and the API server.
func startAPI(t *testing.T) *cluster {
	t.Helper()
	programs := os.Getenv("KUBERNETES")
	if programs == "" {
		t.Skip("KUBERNETES is not set; make test-helm builds a Kubernetes and sets it")
	}
	insecure := &tls.Config{InsecureSkipVerify: true} // the server makes its certificate itself, on loopback
	c := &cluster{
		t: t, dir: t.TempDir(), programs: programs,
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: insecure}},
	}
	client, peer, api := "http://"+freeAddress(t), "http://"+freeAddress(t), freeAddress(t)
	c.url = "https://" + api
	c.write("sa.key", string(serviceAccountKey(t)))
	c.write("tokens.csv", adminToken+",admin,1,system:masters\n")
	c.write("kubeconfig", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "test",
"clusters": [{"name": "test", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}],
"users": [{"name": "test", "user": {"token": %q}}],
"contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}`, c.url, adminToken))
	c.start("etcd", "--data-dir="+c.path("etcd"), "--unsafe-no-fsync", "--listen-client-urls="+client,
		"--advertise-client-urls="+client, "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=default="+peer)
	_, port, err := net.SplitHostPort(api)
	require.NoError(t, err)
	c.start("kube-apiserver", "--etcd-servers="+client, "--bind-address=127.0.0.1", "--secure-port="+port,
		"--cert-dir="+c.path("certificates"), "--token-auth-file="+c.path("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-key-file="+c.path("sa.key"), "--service-account-signing-key-file="+c.path("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24",
		"--endpoint-reconciler-type=none")
	c.await("the API server is ready", func() bool {
		status, _ := c.try(http.MethodGet, "/readyz", nil)
		return status == http.StatusOK
	})
	return c
}

// startMachines starts kwok with six machines in three zones.
func (c *cluster) startMachines() {
	c.t.Helper()
	var stages []string
	for _, name := range []string{
		"pod/fast/pod-ready", "pod/fast/pod-complete", "pod/fast/pod-delete",
		"node/fast/node-initialize", "node/heartbeat-with-lease/node-heartbeat-with-lease",
	} {
		text, err := os.ReadFile(filepath.Join(module(c.t, "kwok"), "kustomize/stage", name+".yaml"))
		require.NoError(c.t, err)
		stages = append(stages, string(text))
	}
	// An image that cannot be pulled: its pods never become ready.
	stages[0] = strings.Replace(stages[0], "    matchExpressions:\n", `    matchExpressions:
    - key: '.spec.containers.[].image'
      operator: 'NotIn'
      values: ['`+image+`:missing']
`, 1)
	require.Contains(c.t, stages[0], ":missing")
	// The pod of helm test ends too, though no Job owns it.
	doctor := strings.Replace(stages[1], "name: pod-complete", "name: doctor-complete", 1)
	doctor = strings.Replace(doctor, "'.metadata.ownerReferences.[].kind'",
		`'.metadata.labels["app.kubernetes.io/component"]'`, 1)
	stages = append(stages, strings.Replace(doctor, "- 'Job'", "- 'doctor'", 1))
	c.write("stages.yaml", strings.Join(stages, "\n---\n"))
	c.start("kwok", "--kubeconfig="+c.path("kubeconfig"), "--manage-all-nodes=true", "--config="+c.path("stages.yaml"),
		"--server-address="+freeAddress(c.t))
	for i := range 6 {
		c.create("/api/v1/nodes", fmt.Sprintf(`{"metadata": {"name": "machine-%d", "labels": {
"kubernetes.io/hostname": "machine-%[1]d", "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "zone-%d"}}}`, i, i%3))
	}
	c.await("the machines are ready", func() bool {
		ready := 0
		for _, n := range c.list("/api/v1/nodes") {
			if condition(n, "Ready") == "True" && at(n, "spec", "taints") == nil {
				ready++
			}
		}
		return ready == 6
	})
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) write(name, text string) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(c.path(name), []byte(text), 0o600))
}

// start starts a program until the test ends. If the test fails, the end of its log is in the output.
func (c *cluster) start(name string, args ...string) {
	c.t.Helper()
	log, err := os.Create(c.path(name + ".log"))
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, filepath.Join(c.programs, name), args...)
	command.Dir, command.Stdout, command.Stderr = c.dir, log, log
	require.NoError(c.t, command.Start())
	c.t.Cleanup(func() {
		cancel()
		_ = command.Wait() // it was killed
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); c.t.Failed() && err == nil {
			c.t.Logf("%s:\n%s", name, text[max(0, len(text)-3000):])
		}
	})
}

func (c *cluster) await(what string, done func() bool) {
	c.t.Helper()
	require.Eventually(c.t, done, limit, 100*time.Millisecond, what)
}

// try sends a request and returns the status and the body of its answer.
func (c *cluster) try(method, path string, body []byte) (int, object) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, bytes.NewReader(body))
	require.NoError(c.t, err)
	request.Header.Set("Authorization", "Bearer "+adminToken)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 32<<20))
	require.NoError(c.t, err)
	var answer object
	_ = json.Unmarshal(text, &answer) // /readyz answers in plain text
	return response.StatusCode, answer
}

func (c *cluster) create(path, body string) {
	c.t.Helper()
	status, answer := c.try(http.MethodPost, path, []byte(body))
	require.Equal(c.t, http.StatusCreated, status, "%v", answer)
}

func (c *cluster) get(path string) object {
	c.t.Helper()
	status, answer := c.try(http.MethodGet, path, nil)
	require.Equal(c.t, http.StatusOK, status, "%s: %v", path, answer)
	return answer
}

func (c *cluster) list(path string) (items []object) {
	c.t.Helper()
	list, _ := c.get(path)["items"].([]any)
	for _, item := range list {
		items = append(items, item.(object))
	}
	return items
}

// helm runs Helm against the cluster.
func (c *cluster) helm(args ...string) (output string, err error) {
	c.t.Helper()
	return run(c.t, tool(c.t, "helm"), append(args, "--kubeconfig="+c.path("kubeconfig"))...)
}

func (c *cluster) mustHelm(args ...string) string {
	c.t.Helper()
	output, err := c.helm(args...)
	require.NoError(c.t, err, "helm %s\n%s", strings.Join(args, " "), output)
	return output
}

// condition returns the status of a condition of an object.
func condition(o object, name string) any {
	list, _ := at(o, "status", "conditions").([]any)
	for _, entry := range list {
		if at(entry, "type") == name {
			return at(entry, "status")
		}
	}
	return nil
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	require.NoError(t, err)
	return port
}

// serviceAccountKey returns a key that signs the tokens of service accounts.
func serviceAccountKey(t *testing.T) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}
