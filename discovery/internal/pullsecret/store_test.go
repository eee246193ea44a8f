// SPDX-License-Identifier: Apache-2.0

package pullsecret_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/discovery/internal/pullsecret"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

const secretName = "temporary-secret-nginx"

// world is a namespace with a pod's ServiceAccount that has these rights on Secrets.
type world struct {
	*WithT
	t         *testing.T
	namespace string
	client    kubernetes.Interface
}

func newWorld(t *testing.T, verbs ...string) *world {
	t.Helper()
	w := &world{WithT: NewWithT(t), t: t}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	w.Expect(cluster.Client.Create(t.Context(), ns)).To(Succeed())
	w.namespace = ns.Name
	w.Expect(cluster.Client.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: ns.Name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: verbs}},
	})).To(Succeed())
	w.Expect(cluster.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: ns.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "scan", Namespace: ns.Name}},
	})).To(Succeed())
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + ns.Name + ":scan"}
	var err error
	w.client, err = kubernetes.NewForConfig(config)
	w.Expect(err).NotTo(HaveOccurred())
	// The API server's authorizer learns of a new binding by a watch of its own.
	for _, verb := range verbs {
		w.Eventually(func(g Gomega) {
			review, err := w.client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns.Name, Verb: verb, Resource: "secrets"},
				},
			}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(review.Status.Allowed).To(BeTrue(), "%s secrets", verb)
		}, time.Minute, 10*time.Millisecond).Should(Succeed())
	}
	return w
}

func (w *world) store(pod, user, password string) (pullsecret.Outcome, error) {
	w.t.Helper()
	s, err := pullsecret.NewSecret(secretName, pullsecret.Pod{Name: pod, Namespace: w.namespace, UID: types.UID("uid-of-" + pod)}, pullsecret.Credentials{Username: user, Password: password})
	w.Expect(err).NotTo(HaveOccurred())
	return pullsecret.Store(w.t.Context(), w.client, s)
}

func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	w.Expect(cluster.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: secretName}, s)).To(Succeed())
	return s
}

func owners(s *corev1.Secret) []string {
	var all []string
	for _, o := range s.OwnerReferences {
		all = append(all, o.Kind+"/"+o.Name)
	}
	return all
}

func TestStoreNeedsNoMoreThanCreate(t *testing.T) {
	w := newWorld(t, "create")
	w.Expect(w.store("first", "u", "p")).To(Equal(pullsecret.Created))
	s := w.secret()
	w.Expect(s.Data).To(Equal(map[string][]byte{"username": []byte("u"), "password": []byte("p")}))
	w.Expect(s.Type).To(Equal(corev1.SecretTypeOpaque))
	w.Expect(owners(s)).To(Equal([]string{"Pod/first"}))
	w.Expect(w.store("second", "u", "p")).To(Equal(pullsecret.Kept))
	w.Expect(w.secret()).To(Equal(s))
}

func TestStoreNeedsCreate(t *testing.T) {
	w := newWorld(t, "get", "update")
	_, err := w.store("first", "u", "p")
	w.Expect(err).To(MatchError(ContainSubstring("needs the right to create secrets")))
	w = newWorld(t, "create", "get")
	w.Expect(w.store("first", "u", "p")).To(Equal(pullsecret.Created))
	_, err = w.store("second", "u", "p")
	w.Expect(err).To(MatchError(ContainSubstring("needs the right to update secrets")))
}

// TestStoreRefreshes: secureCodeBox fails where the Secret of an earlier pod is still there.
func TestStoreRefreshes(t *testing.T) {
	w := newWorld(t, "create", "get", "update")
	w.Expect(w.store("first", "u", "old")).To(Equal(pullsecret.Created))
	w.Expect(w.store("second", "u", "new")).To(Equal(pullsecret.Refreshed))
	w.Expect(w.store("second", "u", "newer")).To(Equal(pullsecret.Refreshed))
	s := w.secret()
	w.Expect(string(s.Data["password"])).To(Equal("newer"))
	w.Expect(owners(s)).To(Equal([]string{"Pod/first", "Pod/second"}))
	for i := range 30 {
		w.Expect(w.store("pod-"+string(rune('a'+i%26))+strings.Repeat("x", i/26), "u", "p")).To(Equal(pullsecret.Refreshed))
	}
	w.Expect(len(w.secret().OwnerReferences)).To(Equal(16))
	w.Expect(owners(w.secret())).To(ContainElement("Pod/pod-dx"))
}

func TestStoreLeavesForeignSecretsAlone(t *testing.T) {
	pod := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}
	data := map[string][]byte{"username": []byte("u"), "password": []byte("p")}
	for name, foreign := range map[string]corev1.Secret{
		"NoOwner":    {Data: data, Type: corev1.SecretTypeOpaque},
		"OtherOwner": {ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{pod, {APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "d"}}}, Data: data, Type: corev1.SecretTypeOpaque},
		"OtherKeys":  {ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{pod}}, Data: map[string][]byte{"username": []byte("u"), "token": []byte("p")}, Type: corev1.SecretTypeOpaque},
		"OtherType":  {ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{pod}}, Data: data, Type: corev1.SecretTypeBasicAuth},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "create", "get", "update")
			foreign.Name, foreign.Namespace = secretName, w.namespace
			w.Expect(cluster.Client.Create(t.Context(), &foreign)).To(Succeed())
			_, err := w.store("first", "attacker", "x")
			w.Expect(errors.Is(err, pullsecret.ErrForeign)).To(BeTrue(), "%v", err)
			w.Expect(w.secret().Data).To(Equal(foreign.Data))
		})
	}
}

func TestNewSecretRefuses(t *testing.T) {
	if _, err := pullsecret.NewSecret("../x", pullsecret.Pod{}, pullsecret.Credentials{}); err == nil {
		t.Error("a name that is none is accepted")
	}
	err := pullsecret.Pod{Name: "UPPER", Namespace: ""}.Validate()
	for _, variable := range []string{"POD_NAME", "NAMESPACE", "POD_UID"} {
		if err == nil || !strings.Contains(err.Error(), variable) {
			t.Errorf("no word of %s in %v", variable, err)
		}
	}
}
