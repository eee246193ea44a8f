// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/scanyard/scanyard/tests/browser"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
)

// programCookie is the name of a session without TLS.
const programCookie = "scanyard-console"

// program is the console as the chart runs it.
type program struct {
	url, status string
	logged      *bytes.Buffer
}

// startProgram runs the console of the cluster until the test ends.
func startProgram(t *testing.T, port int, flags ...string) *program {
	t.Helper()
	dir := t.TempDir()
	key, ca := filepath.Join(dir, "key"), filepath.Join(dir, "ca.crt")
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{key: secret, ca: w.cluster.Config.CAData} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	free, err := ports.Free(2)
	if err != nil {
		t.Fatal(err)
	}
	port = cmp.Or(port, free[1])
	p := &program{url: fmt.Sprintf("http://127.0.0.1:%d", port), status: fmt.Sprintf("http://127.0.0.1:%d", free[0]), logged: &bytes.Buffer{}}
	flags = append([]string{
		"--url=" + p.url, "--bind-address=" + strings.TrimPrefix(p.url, "http://"), "--status-bind-address=" + strings.TrimPrefix(p.status, "http://"),
		"--session-key-file=" + key, "--api-server=" + w.cluster.Config.Host, "--api-server-ca-file=" + ca, "--storage-hosts=" + w.cluster.Storage.Endpoint,
	}, flags...)
	cmd := exec.Command(filepath.Join(cmp.Or(os.Getenv("SCANYARD_BIN"), "../../bin"), "console"), flags...)
	cmd.Stderr = p.logged
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the console: %v (\"make build\" makes the program)", err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the console ends with %v: %s", err, p.logged)
		}
	})
	var last error
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, browser.Patience, true, func(ctx context.Context) (bool, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.status+"/readyz", http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(r)
		if response == nil { // it does not listen yet
			last = err
			return false, nil
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	if err != nil {
		t.Fatalf("the console is not ready: %v, %v: %s", err, last, p.logged)
	}
	return p
}

// newClient makes a client that keeps cookies.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Timeout: browser.Patience}
}

// get reads a page, with further headers in pairs.
func (p *program) get(t *testing.T, b *http.Client, path string, headers ...string) (code int, at, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	response, err := b.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Request.URL.RequestURI(), string(text)
}

// enter signs in with a token, and goes on with a page.
func (p *program) enter(t *testing.T, b *http.Client, token, next string) (code int, body string) {
	t.Helper()
	response, err := b.PostForm(p.url+"/login", url.Values{"token": {token}, "next": {next}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// account makes a ServiceAccount, and is a token of it.
func account(t *testing.T, namespace, name string) (token string) {
	t.Helper()
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	w.create(t, a)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))}}
	if err := w.cluster.Client.SubResource("token").Create(t.Context(), a, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// may lets somebody have a role in a namespace.
func may(t *testing.T, namespace, role string, who rbacv1.Subject) {
	t.Helper()
	w.create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "may-"}, Subjects: []rbacv1.Subject{who},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	})
}

// role makes a ClusterRole that may do something to Scans.
func role(t *testing.T, verbs ...string) string {
	t.Helper()
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "scans-"}}
	r.Rules = []rbacv1.PolicyRule{{APIGroups: []string{"execution.securecodebox.io"}, Resources: []string{"scans"}, Verbs: verbs}}
	w.create(t, r)
	return r.Name
}

// TestSignInAtAProvider goes through a real provider, whose token the API server takes with each request: kim does what kim may do,
// and nothing else.
func TestSignInAtAProvider(t *testing.T) {
	p := startProgram(t, w.provider.redirect, "--oidc-issuer="+w.provider.server.URL, "--oidc-client-id="+clientID, "--oidc-ca-file="+w.provider.ca,
		"--oidc-client-secret-file="+fileWith(t, clientSecret+"\n"))
	ns, others := w.namespace(t, "signin"), w.namespace(t, "signin-others")
	may(t, ns, role(t, "get", "list", "watch", "patch", "update"), rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: oidcPrefix + "kim"})
	w.scan(t, ns, "office", running)
	w.scan(t, others, "hidden", running)
	b := openAt(t, []string{p.url + "/", w.provider.server.URL + "/"}, "/favicon.ico", p.url+"/scans/live?ns="+others)
	signIn(b, p.url+"/scans?ns="+ns, "kim")
	if got := browser.Eval[string](b, "location.href"); got != p.url+"/scans?ns="+ns {
		t.Errorf("signing in leads to %s", got)
	}
	if text := browser.Eval[string](b, "document.body.textContent"); !strings.Contains(text, "office") || !strings.Contains(text, oidcPrefix+"kim") {
		t.Errorf("kim sees\n%s", text)
	}
	b.Leads(chromedp.Navigate(p.url + "/scans?ns=" + others))
	if text := browser.Eval[string](b, "document.body.innerText"); strings.Contains(text, "hidden") || !strings.Contains(text, "You may not list scans.execution.securecodebox.io in "+others) {
		t.Errorf("kim sees\n%s", text)
	}
	b.Leads(chromedp.Navigate(p.url + "/scans/" + ns + "/office"))
	b.Leads(chromedp.Click(chromedp.CSS(`form[action$="/cancel"] button`)))
	if !w.read(t, ns, "office").Cancelled() {
		t.Errorf("the Scan goes on; the page shows %q", browser.Eval[string](b, "document.body.innerText"))
	}
	stolen := cookies(t, b, p.url)
	b.Leads(chromedp.Click(chromedp.CSS(`form[action="/logout"] button`)))
	if left := cookies(t, b, p.url); len(left) > 0 {
		t.Errorf("the browser keeps %s", left[0].Name)
	}
	thief := newClient(t)
	address, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	thief.Jar.SetCookies(address, stolen)
	if _, at, body := p.get(t, thief, "/scans?ns="+ns); !strings.HasPrefix(at, "/login") || strings.Contains(body, "office") {
		t.Errorf("the cookie of an ended session leads to %s", at)
	}
	for _, secret := range []string{clientSecret, "eyJ", "code="} {
		if strings.Contains(p.logged.String(), secret) {
			t.Errorf("the log has %q:\n%s", secret, p.logged)
		}
	}
}

// TestCallbacksOfOthers gives the console answers of a provider that nobody has asked for here.
func TestCallbacksOfOthers(t *testing.T) {
	p := startProgram(t, w.provider.redirect, "--oidc-issuer="+w.provider.server.URL, "--oidc-client-id="+clientID, "--oidc-ca-file="+w.provider.ca,
		"--oidc-client-secret-file="+fileWith(t, clientSecret), "--sign-in-with-tokens=false")
	b := newClient(t)
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if code, _, _ := p.get(t, b, "/login/callback?code=x&state=y"); code != http.StatusBadRequest {
		t.Errorf("a callback without a beginning answers %d", code)
	}
	if code, _, _ := p.get(t, b, "/login/provider"); code != http.StatusSeeOther {
		t.Errorf("the beginning answers %d", code)
	}
	if code, _, _ := p.get(t, b, "/login/callback?code=x&state=y"); code != http.StatusBadRequest {
		t.Errorf("a callback of another beginning answers %d", code)
	}
	if code, _, body := p.get(t, b, "/login"); code != http.StatusOK || strings.Contains(body, `name="token"`) {
		t.Errorf("the page asks for a token, which is switched off (%d)", code)
	}
	response, err := b.PostForm(p.url+"/login", url.Values{"token": {"x"}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("a token answers %d", response.StatusCode)
	}
}

// TestSignInWithAToken signs in with a token of a ServiceAccount, and with one that is none.
func TestSignInWithAToken(t *testing.T) {
	p := startProgram(t, 0)
	ns := w.namespace(t, "token")
	token := account(t, ns, "looker")
	may(t, ns, role(t, "get", "list"), rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "looker"})
	w.scan(t, ns, "office", running)
	b := newClient(t)
	if code, body := p.enter(t, b, token, "/scans?ns="+ns); code != http.StatusOK || !strings.Contains(body, "office") || !strings.Contains(body, "system:serviceaccount:"+ns+":looker") {
		t.Errorf("the token leads to %d:\n%s", code, body)
	}
	address, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range b.Jar.Cookies(address) {
		if strings.Contains(c.Value, token) {
			t.Error("the cookie can be read")
		}
	}
	for _, token := range []string{"", "x", token + "x", "a\nb"} {
		if code, body := p.enter(t, newClient(t), token, "/scans?ns="+ns); code != http.StatusForbidden || strings.Contains(body, "office") {
			t.Errorf("%.10q answers %d", token, code)
		}
	}
	if strings.Contains(p.logged.String(), "eyJ") {
		t.Errorf("the log has a token:\n%s", p.logged)
	}
}

// TestAProxySignsIn has a proxy say who people are. The console's account may do what the chart gives it: impersonate one user and the
// groups that are named.
func TestAProxySignsIn(t *testing.T) {
	ns := w.namespace(t, "proxy")
	token := account(t, ns, "console")
	impersonate := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "console-"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"groups"}, ResourceNames: []string{"team-a", "team-b"}, Verbs: []string{"impersonate"}},
		{APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"scanyard-console"}, Verbs: []string{"impersonate"}},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"userextras/console.scanyard.io/user"}, Verbs: []string{"impersonate"}},
	}}
	w.create(t, impersonate)
	w.create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "console-"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "console"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: impersonate.Name},
	})
	may(t, ns, role(t, "get", "list"), rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "team-a"})
	w.scan(t, ns, "office", running)
	p := startProgram(t, 0, "--sign-in-with-tokens=false", "--proxy-addresses=127.0.0.1/32", "--proxy-groups=team-a,team-b",
		"--service-account-token-file="+fileWith(t, token))
	page := "/scans?ns=" + ns
	b := newClient(t)
	if code, _, body := p.get(t, b, page, "X-Forwarded-User", "kim", "X-Forwarded-Groups", "team-a,system:masters"); code != http.StatusOK || !strings.Contains(body, "office") {
		t.Errorf("a member of team-a gets %d:\n%s", code, body)
	}
	// The same browser with the same cookie, and another person before it.
	if code, _, body := p.get(t, b, page, "X-Forwarded-User", "ann", "X-Forwarded-Groups", "team-b"); code != http.StatusOK || strings.Contains(body, "office") || !strings.Contains(body, "ann") {
		t.Errorf("a member of team-b gets %d:\n%s", code, body)
	}
	if code, _, body := p.get(t, b, page, "X-Forwarded-User", "ann", "X-Forwarded-Groups", "system:masters"); strings.Contains(body, "office") {
		t.Errorf("a group of the cluster's own gets %d:\n%s", code, body)
	}
	for _, headers := range [][]string{nil, {"X-Forwarded-Groups", "team-a"}, {"X-Forwarded-User", "system:admin", "X-Forwarded-Groups", "team-a"}} {
		if code, _, body := p.get(t, b, page, headers...); code != http.StatusForbidden || strings.Contains(body, "office") {
			t.Errorf("%v answers %d", headers, code)
		}
	}
}

// fileWith is a file with a text.
func fileWith(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// signIn signs somebody in, beginning with a page that needs that.
func signIn(b *browser.Tab, page, name string) {
	b.Leads(chromedp.Navigate(page))
	b.Leads(chromedp.Click(chromedp.CSS(`a[href^="/login/provider"]`)))
	b.Leads(
		chromedp.SendKeys(chromedp.CSS(`input[name="username"]`), name), chromedp.SendKeys(chromedp.CSS(`input[name="password"]`), password),
		chromedp.Click(chromedp.CSS("button[type=submit]")),
	)
}

// cookies are those of the program that the browser has: it keeps them by name and host, whatever the port.
func cookies(t *testing.T, b *browser.Tab, address string) (out []*http.Cookie) {
	t.Helper()
	for _, c := range browser.Call(b, network.GetCookies, network.GetCookiesParams{URLs: []string{address}}).Cookies {
		if c.Name != programCookie && c.Name != programCookie+"-2" {
			continue // of the console of the command line
		}
		if !c.HTTPOnly || c.SameSite != network.CookieSameSiteLax {
			t.Errorf("%s is %+v", c.Name, c)
		}
		out = append(out, &http.Cookie{Name: c.Name, Value: c.Value})
	}
	return out
}
