// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/browser"
)

// looker is somebody with a token of their own.
type looker struct {
	browser *http.Client
	client  client.Client
	account *corev1.ServiceAccount
	token   string
}

// newLooker makes somebody without rights.
func newLooker(t *testing.T, namespace, name string) *looker {
	t.Helper()
	token := account(t, namespace, name)
	config := rest.AnonymousClientConfig(w.cluster.Config)
	config.BearerToken = token
	c, err := client.New(config, client.Options{Scheme: w.cluster.Client.Scheme(), Mapper: w.cluster.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return &looker{browser: newClient(t), client: c, account: a, token: token}
}

// everywhere lets them have a role in the whole cluster, until the binding is deleted.
func (l *looker) everywhere(t *testing.T, role string) *rbacv1.ClusterRoleBinding {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "may-"}, Subjects: []rbacv1.Subject{l.subject()},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
	w.create(t, binding)
	return binding
}

func (l *looker) subject() rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: l.account.Namespace, Name: l.account.Name}
}

// lists waits until the API server answers them as it must when they list all Scans.
func (l *looker) lists(t *testing.T, as func(error) bool) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, browser.Patience, true, func(ctx context.Context) (bool, error) {
		last = l.client.List(ctx, &executionv1.ScanList{})
		return as(last), nil
	})
	if err != nil {
		t.Fatalf("the API server answers with %v", last)
	}
}

func allowed(err error) bool { return err == nil }

// scanPages are the pages that show Scans of all namespaces.
var scanPages = []string{"/", "/scans", "/scans/live", "/schedules", "/teams", "/teams/export", "/search?q=hidden", "/findings", "/findings/export?format=csv", "/exceptions/new?cluster=yes"}

// TestSharedScansAreShownByRight has people with different rights look at pages whose Scans were read for somebody else: the API server
// decides of each what they see, with each page.
func TestSharedScansAreShownByRight(t *testing.T) {
	p := startProgram(t, 0)
	ns, others := w.namespace(t, "shared"), w.namespace(t, "shared-others")
	w.scan(t, ns, "own-"+ns, running)
	hidden := "hidden-" + others
	w.scan(t, others, hidden, running)
	every, team, stranger := newLooker(t, ns, "every"), newLooker(t, ns, "team"), newLooker(t, ns, "stranger")
	former, deleted := newLooker(t, ns, "former"), newLooker(t, ns, "deleted")
	list, follow := role(t, "get", "list"), role(t, "get", "list", "watch")
	every.everywhere(t, follow)
	binding := former.everywhere(t, list)
	deleted.everywhere(t, list)
	may(t, ns, list, team.subject())
	// They sign in when they have their rights: the console remembers what they may do.
	for _, l := range []*looker{every, former, deleted} {
		l.lists(t, allowed)
		if code, body := p.enter(t, l.browser, l.token, "/scans?text="+others); code != http.StatusOK || !strings.Contains(body, hidden) {
			t.Errorf("%s may see all Scans, and gets %d:\n%s", l.account.Name, code, body)
		}
	}
	for _, l := range []*looker{team, stranger} {
		if code, body := p.enter(t, l.browser, l.token, "/boards"); code != http.StatusOK {
			t.Errorf("%s signs in: %d\n%s", l.account.Name, code, body)
		}
	}
	hides := func(l *looker) {
		t.Helper()
		for _, page := range scanPages {
			// What somebody else has made the console read is there all the time.
			if _, _, body := p.get(t, every.browser, "/scans?text="+others); !strings.Contains(body, hidden) {
				t.Fatalf("who may see all Scans does not:\n%s", body)
			}
			if code, _, body := p.get(t, l.browser, page); strings.Contains(body, hidden) {
				t.Errorf("%s sees on %s (%d):\n%s", l.account.Name, page, code, body)
			}
		}
	}
	hides(stranger)
	hides(team)
	if _, _, body := p.get(t, team.browser, "/scans?ns="+ns); !strings.Contains(body, "own-"+ns) {
		t.Errorf("the team does not see its own Scan:\n%s", body)
	}
	if err := w.cluster.Client.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	former.lists(t, apierrors.IsForbidden)
	hides(former)
	if err := w.cluster.Client.Delete(t.Context(), deleted.account); err != nil {
		t.Fatal(err)
	}
	deleted.lists(t, apierrors.IsUnauthorized)
	hides(deleted)
	// What was read once is followed: by a watch of who has read it.
	w.scan(t, others, hidden+"-new", running)
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, browser.Patience, true, func(context.Context) (bool, error) {
		_, _, body := p.get(t, every.browser, "/scans?text="+others)
		return strings.Contains(body, hidden+"-new"), nil
	})
	if err != nil {
		t.Errorf("a new Scan is not shown: %v", err)
	}
}
