// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
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
	kubeconfig string
	dir        string
}

// told is how a command ended.
type told struct {
	code     int
	out, err string
}

// atTerminal gives a user a kubeconfig for one namespace.
func atTerminal(ns, user string) *terminalOf {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	c := &terminalOf{kubeconfig: filepath.Join(dir, "kubeconfig"), dir: dir}
	config := clientcmdapi.NewConfig()
	config.Clusters["e2e"] = &clientcmdapi.Cluster{Server: w.config.Host, CertificateAuthority: w.config.CAFile, CertificateAuthorityData: w.config.CAData}
	config.AuthInfos["e2e"] = asUser(w.config, user)
	config.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: "e2e", Namespace: ns}
	config.CurrentContext = "e2e"
	Expect(clientcmd.WriteToFile(*config, c.kubeconfig)).To(Succeed())
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
func (c *terminalOf) types(ctx context.Context, args ...string) told {
	GinkgoHelper()
	cmd := exec.CommandContext(bounded(ctx), w.tools.Path("scanyard"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HOME="+c.dir)
	cmd.Dir = c.dir
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			Expect(err).NotTo(HaveOccurred())
		}
	}
	if text := out.String() + errOut.String(); strings.Contains(errOut.String(), "X-Amz-") || strings.Contains(text, "Signature=") {
		Fail(fmt.Sprintf("%v tells a presigned URL: %s", args, text))
	}
	return told{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// wants holds an exit code and what is told on stdout and stderr together.
func (c *terminalOf) wants(ctx context.Context, code int, says []string, args ...string) told {
	GinkgoHelper()
	got := c.types(ctx, args...)
	Expect(got.code).To(Equal(code), "%v ends with %d, want %d: %s%s", args, got.code, code, got.out, got.err)
	for _, part := range says {
		Expect(got.out+got.err).To(ContainSubstring(part), "%v does not say %q:\n%s%s", args, part, got.out, got.err)
	}
	return got
}

// runOut has the links of a Scan run out, as they do after seven days.
func runOut(ctx context.Context, s *executionv1.Scan) {
	GinkgoHelper()
	const gone = "?X-Amz-Date=20200101T000000Z&X-Amz-Expires=600&X-Amz-Signature=0"
	before := s.DeepCopy()
	for _, link := range []*string{&s.Status.FindingDownloadLink, &s.Status.RawResultDownloadLink} {
		address, _, _ := strings.Cut(*link, "?")
		*link = address + gone
	}
	Expect(w.admin.Status().Patch(ctx, s, client.MergeFrom(before))).To(Succeed())
}

var _ = Describe("Results at the terminal", Label("cli"), func() {
	// Does what a team does with results, with the role edit and no right beyond it.
	It("are read with the role edit and no right beyond it", func(ctx SpecContext) {
		ns, members := team(ctx)
		aggregated(ctx, members)
		editor, viewer := atTerminal(ns, ns+"-edit"), atTerminal(ns, ns+"-view")
		chart(ctx, cascadingHook, ns, nil)
		create(ctx, shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"))
		rules(ctx, ns, map[string]cascadingv1.CascadingRuleSpec{"web": starts(openPort(443), "sh", "cat >"+resultPath+" <<'EOF'\n"+nmapXML("22")+"\nEOF")})
		result := func(ports ...string) string { return "cat >" + resultPath + " <<'EOF'\n" + nmapXML(ports...) + "\nEOF" }
		first := done(ctx, onlyHooks(shellScan(ns, "first", result("22", "80")), ""))
		second := cascadingOn(onlyHooks(shellScan(ns, "second", result("80", "443")), cascadingHook))
		create(ctx, second)
		grown(ctx, second)

		By("Findings", func() {
			editor.wants(ctx, 0, []string{"SEVERITY", "Open Port: 22", "Open Port: 80"}, "findings", "first")
			editor.wants(ctx, 2, []string{"Open Port: 22", "--fail-on informational"}, "findings", "first", "--fail-on", "info")
			got := editor.wants(ctx, 0, nil, "findings", "first", "-o", "json", "--text", "port 22")
			var list []map[string]any
			if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list) != 1 {
				Fail(fmt.Sprintf("%d findings, %v: %s", len(list), err, got.out))
			}
			viewer.wants(ctx, 0, []string{"Open Port: 80"}, "findings", "first")
			editor.wants(ctx, 1, []string{"did you mean first?"}, "findings", "frist")
		})
		By("Raw", func() {
			got := editor.wants(ctx, 0, nil, "raw", "first")
			Expect(got.out).To(BeComparableTo(nmapXML("22", "80")+"\n"), "(-want +got)")
			editor.wants(ctx, 0, []string{"result: "}, "raw", "first", "--own-name")
			kept, err := os.ReadFile(filepath.Join(editor.dir, "result"))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(kept)).To(Equal(got.out), "the file has %q, %v", kept, err)
		})
		By("Diff", func() {
			editor.wants(ctx, 0, []string{"new     INFORMATIONAL   Open Port: 443", "fixed   INFORMATIONAL   Open Port: 22", "second compared with first: 1 new, ", " known, 1 fixed"}, "diff", "first", "second")
		})
		By("Tree", func() {
			editor.wants(ctx, 0, []string{"first ", "second ", "└── second-web-", "   web\n"}, "tree")
		})
		By("Explain", func() {
			got := editor.wants(ctx, 0, nil, "cascade", "explain", "--scan", "second", "-o", "json")
			var answer struct {
				Children []struct{ Metadata struct{ Name string } }
			}
			if err := json.Unmarshal([]byte(got.out), &answer); err != nil || len(answer.Children) != 1 {
				Fail(fmt.Sprintf("%v in %s", err, got.out))
			}
			editor.wants(ctx, 0, []string{answer.Children[0].Metadata.Name + " "}, "tree", "second") // it is what the hook has started
		})
		By("RunOut", func() {
			runOut(ctx, first)
			viewer.wants(ctx, 1, []string{"has run out", `ClusterRole "edit"`}, "findings", "first")
			editor.wants(ctx, 0, []string{"Open Port: 22"}, "findings", "first")
			viewer.wants(ctx, 0, []string{"Open Port: 22"}, "findings", "first") // with the links that the editor has asked for
		})
		By("SwitchedOff", func() {
			off := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "settings.scanyard.io/v1alpha2", "kind": "ScanSetting", "metadata": map[string]any{"namespace": ns, "name": "default"},
				"spec": map[string]any{"storage": map[string]any{"linksInStatus": false}},
			}}
			create(ctx, off)
			eventually(ctx, "links to be switched off", func(ctx context.Context) (bool, error) {
				if err := w.admin.Get(ctx, client.ObjectKeyFromObject(first), first); err != nil {
					return false, err
				}
				runOut(ctx, first)
				got := editor.types(ctx, "findings", "first")
				return got.code == 1 && strings.Contains(got.err, "the operator writes no other: ") && strings.Contains(got.err, "linksInStatus"), nil
			})
		})
	})
})
