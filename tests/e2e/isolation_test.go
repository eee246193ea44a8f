// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
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
func withToken(ctx context.Context, ns, account string) client.Client {
	GinkgoHelper()
	token, err := w.kube.CoreV1().ServiceAccounts(ns).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	cfg := rest.AnonymousClientConfig(w.config)
	cfg.BearerToken = token.Status.Token
	c, err := scans.Connect(cfg)
	Expect(err).NotTo(HaveOccurred())
	return c
}

// heldScan starts a Scan whose scanner waits until it is let go, and returns the account of
// the Scan's parser and hooks.
func heldScan(ctx context.Context, ns, name string) (s *executionv1.Scan, account string, letGo func()) {
	GinkgoHelper()
	kind := shellType(ns, "test-txt", func(j *batchv1.JobSpec) { yes := true; j.Suspend = &yes })
	kind.Name = "held"
	s = scans.New(ns, name, kind.Name, quick)
	create(ctx, kind, s)
	account = accountOf(ctx, s)
	return s, account, func() {
		job := jobsOf(s)["scanner"].DeepCopy()
		Expect(w.admin.Patch(ctx, job, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`)))).To(Succeed())
	}
}

// accountOf waits for the account of a Scan, and for what it may do.
func accountOf(ctx context.Context, s *executionv1.Scan) string {
	GinkgoHelper()
	var list corev1.ServiceAccountList
	var bindings rbacv1.RoleBindingList
	of := []client.ListOption{client.InNamespace(s.Namespace), client.MatchingLabels{executionv1.LabelScanUID: string(s.UID)}}
	eventually(ctx, "the account of Scan "+s.Name, func(ctx context.Context) (bool, error) {
		if err := w.admin.List(ctx, &list, of...); err != nil {
			return false, err
		}
		err := w.admin.List(ctx, &bindings, of...)
		return len(list.Items) == 1 && len(bindings.Items) == 1, err
	})
	return list.Items[0].Name
}

var _ = Describe("Accounts of pods", Label("isolation"), func() {
	// With the token of its account the parser of a Scan
	// reaches this Scan and nothing else, neither in its namespace nor in another, and nothing
	// at all once the Scan has ended.
	It("let a parser reach its own Scan and nothing else, and nothing at all once it has ended", defect(49), func(ctx SpecContext) {
		ns, neighbour := prepared(ctx), prepared(ctx)
		mine, account, letGo := heldScan(ctx, ns, "mine")
		other, theirs := shellScan(ns, "other", quick), shellScan(neighbour, "mine", quick)
		done(ctx, other)
		done(ctx, theirs)

		pod := withToken(ctx, ns, account)
		wantAllowed(ctx, "the parser", scanCalls(pod, mine)...)
		wantAllowed(ctx, "the parser", attempt{"get its ParseDefinition", func(ctx context.Context) error {
			return pod.Get(ctx, client.ObjectKey{Namespace: ns, Name: "test-txt"}, &executionv1.ParseDefinition{})
		}})
		wantForbidden(ctx, "the parser", otherCalls(pod, mine)...)
		for _, s := range []*executionv1.Scan{other, theirs} {
			wantForbidden(ctx, "the parser", append(scanCalls(pod, s), otherCalls(pod, s)...)...)
		}
		wantForbidden(ctx, "the parser",
			attempt{"get another ParseDefinition", func(ctx context.Context) error {
				return pod.Get(ctx, client.ObjectKey{Namespace: ns, Name: "other"}, &executionv1.ParseDefinition{})
			}},
			attempt{"take a token", func(ctx context.Context) error {
				return pod.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account}}, &authenticationv1.TokenRequest{})
			}})

		letGo()
		got := wantDone(ctx, mine)
		if ran := jobsOf(got)["parser"].Spec.Template.Spec.ServiceAccountName; ran != account {
			Fail(fmt.Sprintf("the parser ran as %s, want %s", ran, account))
		}
		eventually(ctx, "the token to be refused", func(ctx context.Context) (bool, error) {
			err := pod.Get(ctx, client.ObjectKeyFromObject(mine), &executionv1.Scan{})
			return apierrors.IsUnauthorized(err), ignoreForbidden(ignoreUnauthorized(err))
		})
		wantNothingLeftOf(ctx, got)
	})

	It("go with a Scan that is deleted while it runs", func(ctx SpecContext) {
		s, _, _ := heldScan(ctx, prepared(ctx), "deleted")
		Expect(w.admin.Delete(ctx, s)).To(Succeed())
		gone(ctx, s)
		wantNothingLeftOf(ctx, s)
	})

	// The pod of a scanner has volumes with
	// tokens, for the lurker. A Scan that mounts one is refused.
	It("keep the lurker's tokens from Scans that mount them", defect(48), func(ctx SpecContext) {
		ns := prepared(ctx)
		for _, volume := range []string{"lurker-token", "lurker-upload-token"} {
			s := shellScan(ns, "thief-"+volume, quick)
			s.Spec.VolumeMounts = []corev1.VolumeMount{{Name: volume, MountPath: "/token"}}
			wantJobs(errored(ctx, s, executionv1.ReasonInvalidSpec, volume, "for the lurker only"))
		}
	})

	// A ScanType with an account of its own lends its token to
	// its own containers, not to those that a Scan brings; nor does a Scan bring one as a volume.
	It("lend their token to containers of the ScanType, not to those of a Scan", func(ctx SpecContext) {
		ns := prepared(ctx)
		const own = "own"
		kind := shellType(ns, "test-txt", once, func(j *batchv1.JobSpec) { j.Template.Spec.ServiceAccountName = own })
		kind.Name = own
		create(ctx, kind,
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: own}},
			&rbacv1.Role{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: own},
				Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}}},
			},
			&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: own},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: own}},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: own},
			})
		const token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
		s := scans.New(ns, "borrower", own, "test -s "+token+"; "+quick)
		s.Spec.InitContainers = []corev1.Container{{Name: "thief", Image: "docker.io/e2e/sh", Command: []string{"/bin/sh", "-ec", "! test -e " + token}}}
		done(ctx, s)

		projected := shellScan(ns, "projected", quick)
		projected.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
		}}}}
		wantJobs(errored(ctx, projected, executionv1.ReasonInvalidSpec, "spec.volumes[0].projected.sources[0]", "not the Scan's"))
	})
})

func ignoreUnauthorized(err error) error {
	if apierrors.IsUnauthorized(err) {
		return nil
	}
	return err
}

// wantNothingLeftOf waits until a Scan that has ended has no account, Role or RoleBinding.
func wantNothingLeftOf(ctx context.Context, s *executionv1.Scan) {
	GinkgoHelper()
	for _, list := range []client.ObjectList{&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
		eventually(ctx, "what the Scan's pods were allowed to be gone", func(ctx context.Context) (bool, error) {
			err := w.admin.List(ctx, list, client.MatchingLabels{executionv1.LabelScanUID: string(s.UID)})
			return len(items(list)) == 0, err
		})
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
