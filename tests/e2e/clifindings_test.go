// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// terminalOf is the command line of a member of a team, without a terminal.
type terminalOf struct {
	t          *testing.T
	kubeconfig string
	dir        string
}

// told is how a command ended.
type told struct {
	code     int
	out, err string
}

// atTerminal gives a user a kubeconfig for one namespace.
func atTerminal(t *testing.T, ns, user string) *terminalOf {
	t.Helper()
	dir := t.TempDir()
	c := &terminalOf{t: t, kubeconfig: filepath.Join(dir, "kubeconfig"), dir: dir}
	config := clientcmdapi.NewConfig()
	config.Clusters["e2e"] = &clientcmdapi.Cluster{Server: w.config.Host, CertificateAuthority: w.config.CAFile, CertificateAuthorityData: w.config.CAData}
	config.AuthInfos["e2e"] = asUser(w.config, user)
	config.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: "e2e", Namespace: ns}
	config.CurrentContext = "e2e"
	if err := clientcmd.WriteToFile(*config, c.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return c
}

// asUser is the admin, who takes the place of a user.
func asUser(c *rest.Config, user string) *clientcmdapi.AuthInfo {
	return &clientcmdapi.AuthInfo{
		ClientCertificate: c.CertFile, ClientCertificateData: c.CertData, ClientKey: c.KeyFile, ClientKeyData: c.KeyData, Token: c.BearerToken,
		Impersonate: user, ImpersonateGroups: []string{"system:authenticated"},
	}
}

// types is what the user types behind "scanyard".
func (c *terminalOf) types(args ...string) told {
	c.t.Helper()
	cmd := exec.CommandContext(bounded(c.t), w.tools.Path("scanyard"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HOME="+c.dir)
	cmd.Dir = c.dir
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			c.t.Fatal(err)
		}
	}
	if text := out.String() + errOut.String(); strings.Contains(errOut.String(), "X-Amz-") || strings.Contains(text, "Signature=") {
		c.t.Errorf("%v tells a presigned URL: %s", args, text)
	}
	return told{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// wants holds an exit code and what is told on stdout and stderr together.
func (c *terminalOf) wants(code int, says []string, args ...string) told {
	c.t.Helper()
	got := c.types(args...)
	if got.code != code {
		c.t.Errorf("%v ends with %d, want %d: %s%s", args, got.code, code, got.out, got.err)
	}
	for _, part := range says {
		if !strings.Contains(got.out+got.err, part) {
			c.t.Errorf("%v does not say %q:\n%s%s", args, part, got.out, got.err)
		}
	}
	return got
}

// runOut has the links of a Scan run out, as they do after seven days.
func runOut(t *testing.T, s *executionv1.Scan) {
	t.Helper()
	const gone = "?X-Amz-Date=20200101T000000Z&X-Amz-Expires=600&X-Amz-Signature=0"
	before := s.DeepCopy()
	for _, link := range []*string{&s.Status.FindingDownloadLink, &s.Status.RawResultDownloadLink} {
		address, _, _ := strings.Cut(*link, "?")
		*link = address + gone
	}
	if err := w.admin.Status().Patch(t.Context(), s, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// TestReadResultsFromTheTerminal does what a team does with results, with the role edit and no right beyond it.
func TestReadResultsFromTheTerminal(t *testing.T) {
	t.Parallel()
	ns, members := team(t)
	aggregated(t, members)
	editor, viewer := atTerminal(t, ns, ns+"-edit"), atTerminal(t, ns, ns+"-view")
	chart(t, cascadingHook, ns, nil)
	create(t, shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"))
	rules(t, ns, map[string]cascadingv1.CascadingRuleSpec{"web": starts(openPort(443), "sh", "cat >"+resultPath+" <<'EOF'\n"+nmapXML("22")+"\nEOF")})
	result := func(ports ...string) string { return "cat >" + resultPath + " <<'EOF'\n" + nmapXML(ports...) + "\nEOF" }
	first := done(t, onlyHooks(shellScan(ns, "first", result("22", "80")), ""))
	second := cascadingOn(onlyHooks(shellScan(ns, "second", result("80", "443")), cascadingHook))
	create(t, second)
	grown(t, second)

	t.Run("Findings", func(t *testing.T) {
		editor.wants(0, []string{"SEVERITY", "Open Port: 22", "Open Port: 80"}, "findings", "first")
		editor.wants(2, []string{"Open Port: 22", "--fail-on informational"}, "findings", "first", "--fail-on", "info")
		got := editor.wants(0, nil, "findings", "first", "-o", "json", "--text", "port 22")
		var list []map[string]any
		if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list) != 1 {
			t.Errorf("%d findings, %v: %s", len(list), err, got.out)
		}
		viewer.wants(0, []string{"Open Port: 80"}, "findings", "first")
		editor.wants(1, []string{"did you mean first?"}, "findings", "frist")
	})
	t.Run("Raw", func(t *testing.T) {
		got := editor.wants(0, nil, "raw", "first")
		if diff := cmp.Diff(nmapXML("22", "80")+"\n", got.out); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		editor.wants(0, []string{"result: "}, "raw", "first", "--own-name")
		kept, err := os.ReadFile(filepath.Join(editor.dir, "result"))
		if err != nil || string(kept) != got.out {
			t.Errorf("the file has %q, %v", kept, err)
		}
	})
	t.Run("Diff", func(t *testing.T) {
		editor.wants(0, []string{"new     INFORMATIONAL   Open Port: 443", "fixed   INFORMATIONAL   Open Port: 22", "second compared with first: 1 new, ", " known, 1 fixed"}, "diff", "first", "second")
	})
	t.Run("Tree", func(t *testing.T) {
		editor.wants(0, []string{"first ", "second ", "└── second-web-", "   web\n"}, "tree")
	})
	t.Run("Explain", func(t *testing.T) {
		got := editor.wants(0, nil, "cascade", "explain", "--scan", "second", "-o", "json")
		var answer struct {
			Children []struct{ Metadata struct{ Name string } }
		}
		if err := json.Unmarshal([]byte(got.out), &answer); err != nil || len(answer.Children) != 1 {
			t.Fatalf("%v in %s", err, got.out)
		}
		editor.wants(0, []string{answer.Children[0].Metadata.Name + " "}, "tree", "second") // it is what the hook has started
	})
	t.Run("RunOut", func(t *testing.T) {
		runOut(t, first)
		viewer.wants(1, []string{"has run out", `ClusterRole "edit"`}, "findings", "first")
		editor.wants(0, []string{"Open Port: 22"}, "findings", "first")
		viewer.wants(0, []string{"Open Port: 22"}, "findings", "first") // with the links that the editor has asked for
	})
	t.Run("SwitchedOff", func(t *testing.T) {
		off := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "settings.scanyard.io/v1alpha1", "kind": "ScanSetting", "metadata": map[string]any{"namespace": ns, "name": "default"},
			"spec": map[string]any{"storage": map[string]any{"linksInStatus": false}},
		}}
		create(t, off)
		eventually(t, "links to be switched off", func(ctx context.Context) (bool, error) {
			if err := w.admin.Get(ctx, client.ObjectKeyFromObject(first), first); err != nil {
				return false, err
			}
			runOut(t, first)
			got := editor.types("findings", "first")
			return got.code == 1 && strings.Contains(got.err, "the operator writes no other: ") && strings.Contains(got.err, "linksInStatus"), nil
		})
	})
}
