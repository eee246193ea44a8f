// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

func TestNear(t *testing.T) {
	all := []string{"nmap", "nikto", "ncrack", "trivy-image", "trivy-filesystem", "zap-baseline-scan", "test-scan"}
	for name, tc := range map[string]struct {
		asked string
		want  []string
	}{
		"Swapped":      {"nmpa", []string{"nmap"}},
		"Missing":      {"nmp", []string{"nmap"}},
		"Capital":      {"NMAP", []string{"nmap"}},
		"Beginning":    {"trivy", []string{"trivy-filesystem", "trivy-image"}},
		"Part":         {"baseline", []string{"zap-baseline-scan"}},
		"LongerThanIt": {"nmap-fast", []string{"nmap"}},
		"Nothing":      {"semgrep", nil},
		"Empty":        {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Near(tc.asked, all)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func refused(user, verb, resource, where string) error {
	text := fmt.Sprintf(`%s is forbidden: User %q cannot %s resource %q in API group "execution.securecodebox.io" %s`, resource, user, verb, resource, where)
	err := apierrors.NewForbidden(schema.GroupResource{Group: "execution.securecodebox.io", Resource: resource}, "", errors.New("x"))
	err.ErrStatus.Message = text
	return fmt.Errorf("get Scan: %w", err)
}

func TestExplain(t *testing.T) {
	s := &Session{Program: "scanyard", ConfigFlags: genericclioptions.NewConfigFlags(true)}
	policy := apierrors.NewForbidden(schema.GroupResource{Resource: "scans"}, "x", errors.New("exceeded quota: scans"))
	for name, tc := range map[string]struct {
		err  error
		want []string
	}{
		"MayNotRead":   {refused("alice@example.com", "list", "scans", `in the namespace "blue"`), []string{`ClusterRole "view"`, "namespace blue", "create rolebinding alice-view", "--user=alice@example.com"}},
		"MayNotWrite":  {refused("alice", "create", "scans", `in the namespace "blue"`), []string{"may not create scans", `ClusterRole "edit"`, "create rolebinding alice-edit"}},
		"WholeCluster": {refused("alice", "list", "scans", "at the cluster scope"), []string{"in the whole cluster", "-n NAMESPACE"}},
		"Policy":       {policy, []string{"exceeded quota: scans"}},
		"NotInstalled": {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "execution.securecodebox.io", Kind: "Scan"}}, []string{"does not serve Scanyard's kinds", "helm install scanyard"}},
		"Unauthorized": {apierrors.NewUnauthorized("no"), []string{"log in again"}},
		"Refused": {
			&url.Error{Op: "Get", URL: "https://10.0.0.1:6443/api?token=x", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}},
			[]string{"10.0.0.1:6443", "cannot be reached", "--context"},
		},
		"NoCluster": {
			&url.Error{Op: "Get", URL: "http://localhost:8080/api", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}},
			[]string{"no cluster is configured", "KUBECONFIG"},
		},
		"Other": {errors.New("as it is"), []string{"as it is"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.Explain(tc.err)
			for _, want := range tc.want {
				if !strings.Contains(got.Error(), want) {
					t.Errorf("%q is missing in: %v", want, got)
				}
			}
			if strings.Contains(got.Error(), "token=x") {
				t.Errorf("a query is shown: %v", got)
			}
			if !errors.Is(got, tc.err) {
				t.Error("the cause is lost")
			}
			if again := s.Explain(got); again.Error() != got.Error() {
				t.Errorf("explained twice: %v", again)
			}
		})
	}
}

// Where nothing is configured nobody is asked, unless an address is given.
func TestConfigOfNothing(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	s := &Session{Program: "scanyard", ConfigFlags: genericclioptions.NewConfigFlags(false)}
	if c, err := s.Config(); err == nil || !strings.Contains(err.Error(), "no cluster is configured") {
		t.Errorf("%+v, %v", c, err)
	}
	*s.ConfigFlags.APIServer = "http://localhost:8080"
	if c, err := s.Config(); err != nil || c.Host != *s.ConfigFlags.APIServer {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestCode(t *testing.T) {
	cause := errors.New("x")
	for name, tc := range map[string]struct {
		err     error
		code    int
		printed error
	}{
		"Done":      {nil, CodeDone, nil},
		"Error":     {cause, CodeErrored, cause},
		"Threshold": {Exit(CodeThreshold, cause), CodeThreshold, cause},
		"Silent":    {Exit(CodeTimeout, nil), CodeTimeout, nil},
		"Wrapped":   {fmt.Errorf("y: %w", Exit(CodeInterrupted, cause)), CodeInterrupted, cause},
	} {
		t.Run(name, func(t *testing.T) {
			code, printed := Code(tc.err)
			if code != tc.code || !errors.Is(printed, tc.printed) {
				t.Errorf("got %d, %v; want %d, %v", code, printed, tc.code, tc.printed)
			}
		})
	}
}

func TestSuggest(t *testing.T) {
	flags := genericclioptions.NewConfigFlags(true)
	s := &Session{Program: "kubectl scanyard", ConfigFlags: flags}
	if got := s.Suggest("wait", "nmap"); got != "kubectl scanyard wait nmap" {
		t.Errorf("got %q", got)
	}
	*flags.Namespace, *flags.Context = "blue", "prod"
	if got := s.Suggest("wait", "nmap"); got != "kubectl scanyard wait nmap -n blue --context prod" {
		t.Errorf("got %q", got)
	}
}
