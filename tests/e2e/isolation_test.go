// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/scans"
)

// withToken goes through the API with a real token of a ServiceAccount, as a pod does.
func withToken(t *testing.T, ns, account string) client.Client {
	t.Helper()
	token, err := w.kube.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(w.config)
	cfg.BearerToken = token.Status.Token
	c, err := scans.Connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// heldScan starts a Scan whose scanner waits until it is let go, and returns the account of
// the Scan's parser and hooks.
func heldScan(t *testing.T, ns, name string) (s *executionv1.Scan, account string, letGo func()) {
	t.Helper()
	kind := shellType(ns, "test-txt", func(j *batchv1.JobSpec) { yes := true; j.Suspend = &yes })
	kind.Name = "held"
	s = scans.New(ns, name, kind.Name, quick)
	create(t, kind, s)
	account = accountOf(t, s)
	return s, account, func() {
		job := jobsOf(s)["scanner"].DeepCopy()
		if err := w.admin.Patch(t.Context(), job, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`))); err != nil {
			t.Fatal(err)
		}
	}
}

// accountOf waits for the account of a Scan, and for what it may do.
func accountOf(t *testing.T, s *executionv1.Scan) string {
	t.Helper()
	var list corev1.ServiceAccountList
	var bindings rbacv1.RoleBindingList
	of := []client.ListOption{client.InNamespace(s.Namespace), client.MatchingLabels{executionv1.LabelScanUID: string(s.UID)}}
	eventually(t, "the account of Scan "+s.Name, func(ctx context.Context) (bool, error) {
		if err := w.admin.List(ctx, &list, of...); err != nil {
			return false, err
		}
		err := w.admin.List(ctx, &bindings, of...)
		return len(list.Items) == 1 && len(bindings.Items) == 1, err
	})
	return list.Items[0].Name
}

// TestDefect49ParserReachesItsScanOnly: with the token of its account the parser of a Scan
// reaches this Scan and nothing else, neither in its namespace nor in another, and nothing
// at all once the Scan has ended.
func TestDefect49ParserReachesItsScanOnly(t *testing.T) {
	t.Parallel()
	ns, neighbour := prepared(t), prepared(t)
	mine, account, letGo := heldScan(t, ns, "mine")
	other, theirs := shellScan(ns, "other", quick), shellScan(neighbour, "mine", quick)
	done(t, other)
	done(t, theirs)

	pod := withToken(t, ns, account)
	wantAllowed(t, "the parser", scanCalls(pod, mine)...)
	wantAllowed(t, "the parser", attempt{"get its ParseDefinition", func(ctx context.Context) error {
		return pod.Get(ctx, client.ObjectKey{Namespace: ns, Name: "test-txt"}, &executionv1.ParseDefinition{})
	}})
	wantForbidden(t, "the parser", otherCalls(pod, mine)...)
	for _, s := range []*executionv1.Scan{other, theirs} {
		wantForbidden(t, "the parser", append(scanCalls(pod, s), otherCalls(pod, s)...)...)
	}
	wantForbidden(t, "the parser",
		attempt{"get another ParseDefinition", func(ctx context.Context) error {
			return pod.Get(ctx, client.ObjectKey{Namespace: ns, Name: "other"}, &executionv1.ParseDefinition{})
		}},
		attempt{"take a token", func(ctx context.Context) error {
			return pod.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account}}, &authenticationv1.TokenRequest{})
		}})

	letGo()
	got := wantDone(t, mine)
	if ran := jobsOf(got)["parser"].Spec.Template.Spec.ServiceAccountName; ran != account {
		t.Errorf("the parser ran as %s, want %s", ran, account)
	}
	eventually(t, "the token to be refused", func(ctx context.Context) (bool, error) {
		err := pod.Get(ctx, client.ObjectKeyFromObject(mine), &executionv1.Scan{})
		return apierrors.IsUnauthorized(err), ignoreForbidden(ignoreUnauthorized(err))
	})
	wantNothingLeftOf(t, got)
}

func ignoreUnauthorized(err error) error {
	if apierrors.IsUnauthorized(err) {
		return nil
	}
	return err
}

// wantNothingLeftOf waits until a Scan that has ended has no account, Role or RoleBinding.
func wantNothingLeftOf(t *testing.T, s *executionv1.Scan) {
	t.Helper()
	for _, list := range []client.ObjectList{&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
		eventually(t, "what the Scan's pods were allowed to be gone", func(ctx context.Context) (bool, error) {
			err := w.admin.List(ctx, list, client.MatchingLabels{executionv1.LabelScanUID: string(s.UID)})
			return len(items(t, list)) == 0, err
		})
	}
}

// TestDeletedScanLeavesNoAccount: nor does a Scan that is deleted while it runs.
func TestDeletedScanLeavesNoAccount(t *testing.T) {
	t.Parallel()
	s, _, _ := heldScan(t, prepared(t), "deleted")
	if err := w.admin.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	gone(t, s)
	wantNothingLeftOf(t, s)
}

// TestDefect48ScanCannotTakeTheLurkersTokens: the pod of a scanner has volumes with
// tokens, for the lurker. A Scan that mounts one is refused.
func TestDefect48ScanCannotTakeTheLurkersTokens(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	for _, volume := range []string{"lurker-token", "lurker-upload-token"} {
		s := shellScan(ns, "thief-"+volume, quick)
		s.Spec.VolumeMounts = []corev1.VolumeMount{{Name: volume, MountPath: "/token"}}
		wantJobs(t, errored(t, s, executionv1.ReasonInvalidSpec, volume, "for the lurker only"))
	}
}

// mountsToken says which container of a pod mounts a token for the API server.
func mountsToken(pod *corev1.PodSpec) (containers []string) {
	tokens := map[string]bool{}
	for i := range pod.Volumes {
		p := pod.Volumes[i].Projected
		if p == nil {
			continue
		}
		for _, source := range p.Sources {
			if source.ServiceAccountToken != nil && source.ServiceAccountToken.Audience == "" {
				tokens[pod.Volumes[i].Name] = true
			}
		}
	}
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			for _, m := range list[i].VolumeMounts {
				if tokens[m.Name] || strings.HasPrefix(m.MountPath, "/var/run/secrets/kubernetes.io") {
					containers = append(containers, list[i].Name)
				}
			}
		}
	}
	return containers
}
