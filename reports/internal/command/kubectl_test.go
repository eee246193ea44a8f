// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/tests/testcluster"
)

// kubectl is a real kubectl, and a kind of reports that it works on.
type kubectl struct {
	t          *testing.T
	program    string
	kubeconfig string
	folder     string
	group      string // with the version
	kind       string
	resource   string // with the group
}

// newKubectl finds kubectl in the local cluster's program, which is kubectl under that name.
func newKubectl(t *testing.T, kubeconfig, group, kind string) *kubectl {
	t.Helper()
	folder := t.TempDir()
	local := os.Getenv("LOCALCLUSTER_BIN")
	if local == "" {
		local = filepath.Join("..", "..", "..", "bin", "localcluster")
	}
	local, err := filepath.Abs(local)
	if err == nil {
		_, err = os.Stat(local)
	}
	if err != nil {
		t.Fatalf("this test needs the local cluster's program: run \"make bin/localcluster\", or set LOCALCLUSTER_BIN: %v", err)
	}
	k := &kubectl{t: t, program: filepath.Join(folder, "kubectl"), kubeconfig: kubeconfig, folder: folder, group: group, kind: kind}
	if err := os.Symlink(local, k.program); err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(group, "/")
	k.resource = strings.ToLower(kind) + "s." + name
	return k
}

func (k *kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.program, append(args, "--kubeconfig", k.kubeconfig, "--namespace", "team-a", "--cache-dir", filepath.Join(k.folder, "cache"))...)
	cmd.Env = append(os.Environ(), "KUBE_EDITOR=sed -i s/fail:.*/fail:\\ 7/", "HOME="+k.folder)
	return cmd
}

// fill puts what the kind is called into a text.
func (k *kubectl) fill(text string) string {
	name, _, _ := strings.Cut(k.group, "/")
	return strings.NewReplacer("{resource}", k.resource, "{object}", strings.ToLower(k.kind)+"."+name, "{kind}", k.kind, "{group}", name, "{version}", k.group).Replace(text)
}

// report is one in JSON, with further members.
func (k *kubectl) report(name string, more ...string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"app":%q}},"results":[{"policy":"CVE-1","severity":"high","result":"fail"}]%s}`,
		k.group, k.kind, name, name, strings.Join(append([]string{""}, more...), ","))
}

// kubectlStep is one call: its arguments by words, its input, and how it ends.
type kubectlStep struct {
	name  string
	args  string
	input func(k *kubectl) string
	exit  int
	says  []string // all of these
	not   []string // none of these
}

func inputOf(name string, more ...string) func(k *kubectl) string {
	return func(k *kubectl) string { return k.report(name, more...) }
}

// kubectlSteps are what people do with a kind. Each begins with what the ones before have left. The same holds for CRDs.
var kubectlSteps = []kubectlStep{
	{name: "api-resources", args: "api-resources --api-group={group} -o name", says: []string{"{resource}"}},
	{name: "explain", args: "explain {resource}.results.severity", says: []string{"severity", "ENUM:", "critical"}},
	{name: "explain the whole", args: "explain {resource} --recursive", says: []string{"scopeSelector", "matchExpressions", "KIND:"}},
	{name: "get nothing", args: "get {resource}", says: []string{"No resources found in team-a namespace."}},
	{name: "create", args: "create -f -", input: inputOf("one", `"summary":{"fail":1}`), says: []string{"{object}/one created"}},
	{name: "create again", args: "create -f -", input: inputOf("one"), exit: 1, says: []string{"AlreadyExists", `"one" already exists`}},
	{name: "create, dry run", args: "create -f - --dry-run=server", input: inputOf("two"), says: []string{"{object}/two created (server dry run)"}},
	{name: "get what is missing", args: "get {resource} two", exit: 1, says: []string{"NotFound"}}, // kubectl looks for the namespace then, which the door has not
	{name: "create with a wrong value", args: "create -f -", input: inputOf("bad", `"summary":{"fail":"x"}`), exit: 1, says: []string{"summary.fail"}},
	{name: "create with a wrong word", args: "create -f -", exit: 1, says: []string{"results[0].severity", `Unsupported value: "bad"`}, input: func(k *kubectl) string {
		return strings.Replace(k.report("bad"), `"high"`, `"bad"`, 1)
	}},
	{name: "create with an unknown field", args: "create -f -", input: inputOf("bad", `"nonsense":1`), exit: 1, says: []string{`unknown field "nonsense"`}},
	{name: "the same with a warning", args: "create -f - --validate=warn --dry-run=server", input: inputOf("bad", `"nonsense":1`), says: []string{`Warning: unknown field "nonsense"`}},
	{name: "apply, new", args: "apply -f -", input: inputOf("applied"), says: []string{"{object}/applied created"}},
	{name: "apply, equal", args: "apply -f -", input: inputOf("applied"), says: []string{"{object}/applied unchanged"}},
	{name: "diff of what differs", args: "diff -f -", input: inputOf("applied", `"summary":{"pass":3}`), exit: 1, says: []string{"+  pass: 3"}},
	{name: "diff of what is equal", args: "diff -f -", input: inputOf("applied")},
	{name: "apply, changed", args: "apply -f -", input: inputOf("applied", `"summary":{"pass":3}`), says: []string{"{object}/applied configured"}},
	{name: "server-side apply", args: "apply --server-side --field-manager=first -f -", input: inputOf("ssa", `"summary":{"pass":1}`), says: []string{"{object}/ssa serverside-applied"}},
	{
		name: "conflict of managers", args: "apply --server-side --field-manager=second -f -", input: inputOf("ssa", `"summary":{"pass":2}`), exit: 1,
		says: []string{`conflict with "first"`, ".summary.pass"},
	},
	{name: "conflict, forced", args: "apply --server-side --field-manager=second --force-conflicts -f -", input: inputOf("ssa", `"summary":{"pass":2}`), says: []string{"serverside-applied"}},
	{name: "managed fields", args: "get {resource} ssa -o yaml --show-managed-fields", says: []string{"manager: second", "operation: Apply", "f:pass"}},
	{name: "table", args: "get {resource}", says: []string{"NAME ", "PASS ", "FAIL ", "WARN ", "ERROR ", "SKIP ", "AGE", "\none ", "\nssa "}, not: []string{"KIND "}},
	{name: "wide table", args: "get {resource} one -o wide", says: []string{"NAME ", "KIND ", "PASS "}},
	{name: "names", args: "get {resource} -o name --sort-by=.metadata.name", says: []string{"{object}/applied\n{object}/one\n{object}/ssa\n"}},
	{name: "pages", args: "get {resource} -o name --chunk-size=1", says: []string{"{object}/applied\n{object}/one\n{object}/ssa\n"}},
	{name: "all namespaces", args: "get {resource} -A --no-headers", says: []string{"team-a "}},
	{name: "JSONPath", args: "get {resource} one -o jsonpath={.results[0].policy}", says: []string{"CVE-1"}},
	{name: "columns of one's own", args: "get {resource} one -o custom-columns=F:.summary.fail", says: []string{"F\n1\n"}},
	{name: "label selector", args: "get {resource} -l app=one -o name", says: []string{"{object}/one"}, not: []string{"ssa"}},
	{name: "label selector, not", args: "get {resource} -l app!=one -o name", says: []string{"{object}/ssa"}, not: []string{"/one"}},
	{name: "field selector", args: "get {resource} --field-selector=metadata.name!=one -o name", says: []string{"{object}/ssa"}, not: []string{"/one"}},
	{name: "unknown field selector", args: "get {resource} --field-selector=spec.x=1", exit: 1, says: []string{"field label not supported: spec.x"}},
	{name: "describe", args: "describe {resource} one", says: []string{"Name:         one", "Kind:         {kind}", "Severity:  high"}},
	{name: "get --raw", args: "get --raw /apis/{version}", says: []string{"APIResourceList"}},
	{name: "merge patch", args: `patch {resource} one --type=merge -p {"summary":{"fail":2}}`, says: []string{"{object}/one patched"}},
	{name: "merge patch of what is so", args: `patch {resource} one --type=merge -p {"summary":{"fail":2}}`, says: []string{"patched (no change)"}},
	{name: "JSON patch", args: `patch {resource} one --type=json -p [{"op":"test","path":"/summary/fail","value":2},{"op":"replace","path":"/summary/fail","value":3}]`, says: []string{"patched"}},
	{name: "JSON patch whose test fails", args: `patch {resource} one --type=json -p [{"op":"test","path":"/summary/fail","value":2}]`, exit: 1, says: []string{"the server rejected our request"}},
	{
		name: "strategic merge patch", args: `patch {resource} one --type=strategic -p {"summary":{"fail":9}}`, exit: 1,
		says: []string{"is not supported by {version}, Kind={kind}: the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"},
	},
	{name: "patch, dry run", args: `patch {resource} one --type=merge --dry-run=server -p {"summary":{"fail":9}}`, says: []string{"patched"}},
	{name: "wait for a value", args: "wait {resource} one --for=jsonpath={.summary.fail}=3 --timeout=30s", says: []string{"{object}/one condition met"}},
	{name: "edit", args: "edit {resource} one", says: []string{"{object}/one edited"}},
	{name: "what was edited", args: "get {resource} one -o jsonpath={.summary.fail},{.metadata.generation}", says: []string{"7,4"}},
	{name: "label", args: "label {resource} one team=a", says: []string{"{object}/one labeled"}},
	{name: "annotate", args: "annotate {resource} one note=x", says: []string{"{object}/one annotated"}},
	{name: "no new generation", args: "get {resource} one -o jsonpath={.metadata.generation}", says: []string{"4"}},
	{name: "replace", args: "replace -f -", input: inputOf("one", `"summary":{"fail":8}`), says: []string{"{object}/one replaced"}},
	{name: "replace what is missing", args: "replace -f -", input: inputOf("two"), exit: 1, says: []string{`"two" not found`}},
	{name: "scale", args: "scale {resource} one --replicas=2", exit: 1},
	{name: "set a finalizer", args: `patch {resource} one --type=merge -p {"metadata":{"finalizers":["example.com/keep"]}}`, says: []string{"patched"}},
	{name: "delete, dry run", args: "delete {resource} one --dry-run=server", says: []string{`"one" deleted`, "(server dry run)"}},
	{name: "delete what a finalizer holds", args: "delete {resource} one --wait=false", says: []string{`"one" deleted`}},
	{name: "it is there still", args: "get {resource} one -o jsonpath={.metadata.finalizers},{.metadata.deletionGracePeriodSeconds}", says: []string{`["example.com/keep"],0`}},
	{name: "no further finalizer", args: `patch {resource} one --type=merge -p {"metadata":{"finalizers":["example.com/keep","example.com/more"]}}`, exit: 1, says: []string{"no new finalizers can be added"}},
	{name: "drop the finalizer", args: `patch {resource} one --type=merge -p {"metadata":{"finalizers":null}}`, says: []string{"patched"}},
	{name: "wait for the end", args: "wait {resource} one --for=delete --timeout=30s"},
	{name: "delete by label", args: "delete {resource} -l app=ssa --wait=true", says: []string{`"ssa" deleted`}},
	{name: "delete the rest", args: "delete {resource} --all", says: []string{`"applied" deleted`}},
	{name: "delete what is missing", args: "delete {resource} one", exit: 1, says: []string{`"one" not found`}},
	{name: "delete what may be missing", args: "delete {resource} one --ignore-not-found"},
}

func (k *kubectl) run(step *kubectlStep) {
	k.t.Helper()
	cmd := k.command(k.t.Context(), strings.Fields(k.fill(step.args))...)
	if step.input != nil {
		cmd.Stdin = strings.NewReader(step.input(k))
	}
	out, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		k.t.Fatal(err)
	}
	said := "\n" + string(out)
	wrong := cmd.ProcessState.ExitCode() != step.exit
	for _, words := range step.says {
		wrong = wrong || !strings.Contains(said, k.fill(words))
	}
	for _, words := range step.not {
		wrong = wrong || strings.Contains(said, k.fill(words))
	}
	if wrong {
		k.t.Errorf("%s: kubectl %s: exit code %d, must be %d and say %q:%s", step.name, k.fill(step.args), cmd.ProcessState.ExitCode(), step.exit, step.says, said)
	}
}

// watch holds that "get -w NAME" shows what is there, and then each change of this object alone.
func (k *kubectl) watch() {
	k.t.Helper()
	for _, name := range []string{"watched", "other"} {
		k.run(&kubectlStep{name: "create", args: "create -f -", input: inputOf(name), says: []string{"created"}})
	}
	ctx, stop := context.WithTimeout(k.t.Context(), time.Minute)
	defer stop()
	cmd := k.command(ctx, "get", k.resource, "watched", "-w", "--output-watch-events", "-o", "jsonpath={.type} {.object.metadata.name} {.object.summary.fail}{'\\n'}")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		k.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func(want string) {
		k.t.Helper()
		if !lines.Scan() || strings.TrimSpace(lines.Text()) != want {
			k.t.Fatalf("watch: %q, must be %q: %s", lines.Text(), want, complaints.String())
		}
	}
	next("ADDED watched")
	k.run(&kubectlStep{name: "another one", args: `patch {resource} other --type=merge -p {"summary":{"fail":1}}`, says: []string{"patched"}})
	k.run(&kubectlStep{name: "change", args: `patch {resource} watched --type=merge -p {"summary":{"fail":5}}`, says: []string{"patched"}})
	next("MODIFIED watched 5")
	k.run(&kubectlStep{name: "delete", args: "delete {resource} watched other", says: []string{`"watched" deleted`, `"other" deleted`}})
	next("DELETED watched 5")
	stop()
	_ = cmd.Wait() // it was killed
}

// all takes every step.
func (k *kubectl) all() {
	k.t.Helper()
	for i := range kubectlSteps {
		k.run(&kubectlSteps[i])
	}
	k.watch()
}

// rightsSteps are what people ask about their rights, and what they may do then. A cluster answers them, the door has no such API.
var rightsSteps = []kubectlStep{
	{name: "an administrator may", args: "auth can-i deletecollection {resource}", says: []string{"yes"}},
	{name: "who has no role may not", args: "auth can-i get {resource} --as=stranger", exit: 1, says: []string{"no"}},
	{name: "a reader may not write", args: "auth can-i create {resource} --as=reader", exit: 1, says: []string{"no"}},
	{name: "nor read elsewhere", args: "auth can-i list {resource} --as=reader -A", exit: 1, says: []string{"no"}},
	{name: "all rights", args: "auth can-i --list --as=reader", says: []string{"{resource}", "[get list watch]"}},
	{name: "create", args: "create -f -", input: inputOf("guarded"), says: []string{"created"}},
	{name: "read", args: "get {resource} guarded -o name --as=reader", says: []string{"{object}/guarded"}},
	{name: "read, as a stranger", args: "get {resource} guarded --as=stranger", exit: 1, says: []string{"Forbidden", `"stranger" cannot get resource`}},
	{name: "read of all namespaces", args: "get {resource} -A --as=reader", exit: 1, says: []string{"Forbidden"}},
	{name: "write", args: `patch {resource} guarded --type=merge -p {"summary":{"fail":2}} --as=reader`, exit: 1, says: []string{"Forbidden", `"reader" cannot patch resource`}},
	{name: "delete", args: "delete {resource} guarded", says: []string{"deleted"}},
	{name: "delete the role", args: "delete role,rolebinding reader", says: []string{"deleted"}},
}

// rights takes the steps about rights, with a reader who may read one kind in one namespace.
func (k *kubectl) rights() {
	k.t.Helper()
	k.run(&kubectlStep{name: "create a role", args: "create role reader --verb=get,list,watch --resource={resource}", says: []string{"created"}})
	k.run(&kubectlStep{name: "give the role", args: "create rolebinding reader --role=reader --user=reader", says: []string{"created"}})
	k.until("auth", "can-i", "list", k.resource, "--as=reader")
	for i := range rightsSteps {
		k.run(&rightsSteps[i])
	}
}

// until waits until kubectl ends with 0: what is written takes effect a moment later.
func (k *kubectl) until(args ...string) {
	k.t.Helper()
	err := wait.PollUntilContextTimeout(k.t.Context(), 500*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return k.command(ctx, args...).Run() == nil, nil
	})
	if err != nil {
		k.t.Fatalf("kubectl %s: %v", args, err)
	}
}

// kindsOf are the kinds of reports by their groups.
var kindsOf = map[string]string{"wgpolicyk8s.io/v1alpha2": "PolicyReport", "openreports.io/v1alpha1": "Report", "prext.demo/v1alpha1": "PolicyReport"}

// What people do with kubectl works as on CRDs. At full size the same is done in the other groups, behind kube-apiserver, and on the
// published CRDs themselves, which proves that what is asked for is right.
func TestKubectl(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("a-token,admin,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDoor(t, "--sqlite", filepath.Join(t.TempDir(), "reports.db"), "--token-file", tokens)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],"users":[{"name":"a","user":{"token":"a-token"}}],
		"clusters":[{"name":"a","cluster":{"server":%q,"certificate-authority-data":%q}}]}`, d.URL, base64.StdEncoding.EncodeToString([]byte(d.CA)))
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, group := range dbtest.Size([]string{"wgpolicyk8s.io/v1alpha2"}, []string{"wgpolicyk8s.io/v1alpha2", "openreports.io/v1alpha1", "prext.demo/v1alpha1"}) {
		newKubectl(t, kubeconfig, group, kindsOf[group]).all()
	}
}

// TestKubectlInACluster runs at full size only.
func TestKubectlInACluster(t *testing.T) {
	if dbtest.Size(true, false) {
		t.Skip("needs a cluster of its own: runs with -full")
	}
	cluster, err := testcluster.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := cluster.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}); err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, groups ...string) {
		for _, group := range groups {
			k := newKubectl(t, cluster.Kubeconfig(), group, kindsOf[group])
			k.until("explain", k.resource+".results")
			k.all()
			k.rights()
		}
	}
	t.Run("server", func(t *testing.T) {
		stop := serveBehind(t, cluster)
		check(t, "wgpolicyk8s.io/v1alpha2", "openreports.io/v1alpha1", "prext.demo/v1alpha1")
		stop()
	})
	t.Run("CRDs", func(t *testing.T) {
		if err := cluster.InstallReportCRDs(t.Context()); err != nil {
			t.Fatal(err)
		}
		check(t, "wgpolicyk8s.io/v1alpha2", "openreports.io/v1alpha1")
	})
}

// serveBehind has kube-apiserver send requests for all groups to a server of this process, until the function that it returns is called.
func serveBehind(t *testing.T, cluster *testcluster.Cluster) (stop func()) {
	t.Helper()
	const name = "reports"
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: name, Namespace: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}}
	create := cluster.Client.Create
	err = errors.Join(
		create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}),
		create(t.Context(), &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: servicePort, TargetPort: intstr.FromInt(port)}}}}),
		create(t.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(port)), Protocol: new(corev1.ProtocolTCP)}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ownAddress(t)}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	at := []string{"--namespace", name, "--service", name, "--kubeconfig", cluster.Kubeconfig()}
	d := startServing(t, append(at, "--sqlite", filepath.Join(t.TempDir(), "reports.db"), "--bind", fmt.Sprintf("0.0.0.0:%d", port), "--serve-prext",
		"--tls-secret", "reports-tls", "--take-over", "ifAbsent")...)
	return func() {
		t.Helper()
		release := New(io.Discard, noEnvironment)
		release.SetArgs(append([]string{"release"}, at...))
		if err := release.ExecuteContext(t.Context()); err != nil {
			t.Error(err)
		}
		d.stop()
	}
}

// ownAddress is one of this machine's that is not its loopback, which EndpointSlices do not take.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range all {
		if network, ok := address.(*net.IPNet); ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			return network.IP.String()
		}
	}
	t.Fatal("this machine has no IPv4 address but that of its loopback")
	return ""
}
