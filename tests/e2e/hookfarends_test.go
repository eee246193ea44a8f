// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/testcluster/mailbox"
)

// webhookSecret is the Secret that generic-webhook reads.
func webhookSecret(ns string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "generic-webhook-credentials"}, StringData: data}
}

var _ = Describe("Far ends of hooks", Label("hooks"), func() {
	// Whatever is wrong with a far end, the Scan names hook, host and status,
	// and nothing that is read by people holds a credential, though the far end repeats all
	// that it was sent.
	Describe("are named with host and status where they refuse, and nothing that people read holds a credential", slow, func() {
		const inPath, inQuery, inURL, key, password = "Tp4thT0k3nTp4th", "Tqu3ryT0k3nTqu3ry", "Turlp4ssw0rdT", "Tk3yTk3yTk3yTk3y", "Tb4s1cp4ssw0rdT"
		basic := base64.StdEncoding.EncodeToString([]byte("robot:" + password))
		echo := func(e exchange) string {
			b, err := json.Marshal(map[string]any{"error": "I do not like " + e.URL.String(), "headers": e.Header})
			if err != nil {
				return err.Error()
			}
			return string(b)
		}
		cases := map[string]struct {
			secret map[string]string
			url    func(*farEnd) string
			status int
			down   bool
			says   string
		}{
			"NobodyListens": {
				secret: map[string]string{"headerName": "X-Api-Key", "headerValue": key}, down: true, says: "cannot be reached",
			},
			"RefusesKey": {
				secret: map[string]string{"headerName": "X-Api-Key", "headerValue": key}, status: http.StatusForbidden, says: "403 Forbidden",
			},
			"RefusesPassword": {
				secret: map[string]string{"username": "robot", "password": password}, status: http.StatusUnauthorized, says: "401 Unauthorized",
			},
			"Breaks": {
				url:    func(f *farEnd) string { return strings.Replace(f.URL, "http://", "http://robot:"+inURL+"@", 1) },
				status: http.StatusInternalServerError, says: "500 Internal Server Error",
			},
		}
		for name, tc := range inOrder(cases) {
			It(name, func(ctx SpecContext) {
				there := startFarEnd(func(e exchange) reply { return reply{status: tc.status, text: echo(e)} })
				if tc.down {
					there.Close()
				}
				url := there.URL
				if tc.url != nil {
					url = tc.url(there)
				}
				ns := prepared(ctx)
				if tc.secret != nil {
					create(ctx, webhookSecret(ns, tc.secret))
				}
				chart(ctx, "generic-webhook", ns, webhookValues(fmt.Sprintf("%s/hooks/%s?token=%s", url, inPath, inQuery), nil))
				got := errored(ctx, shellScan(ns, "unheard", quick), executionv1.ReasonHookFailed, `Hook "generic-webhook"`, there.host(), tc.says)
				if all := there.all(); !tc.down {
					if len(all) == 0 || !strings.Contains(echo(all[0]), inPath) {
						Fail("the far end was sent no credentials")
					}
				}
				for where, text := range visible(ctx, got) {
					for _, secret := range []string{inPath, inQuery, inURL, key, password, basic} {
						Expect(text).NotTo(ContainSubstring(secret), "%s holds the credential %s:\n%s", where, secret, text)
					}
				}
			})
		}
	})

	Describe("get each finding of nmap as one document of Elasticsearch", func() {
		for name, wide := range inOrder(map[string]bool{"in a namespace": false, "for the whole cluster": true}) {
			It(name, func(ctx SpecContext) {
				store := newElastic("ApiKey " + base64.StdEncoding.EncodeToString([]byte("key-id:key-text")))
				there := startFarEnd(store.answer)
				web, ns := webSite(), namespace(ctx)
				create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "elastic"}, StringData: map[string]string{"id": "key-id", "key": "key-text"}})
				values := map[string]any{
					"externalElasticStack": map[string]any{"elasticsearchAddress": there.URL},
					"authentication":       map[string]any{"apiKeySecret": "elastic"},
				}
				s := scans.New(ns, "kept", "nmap", "-p", strconv.Itoa(web.Port), web.Host)
				if wide {
					clusterCharts(ctx)
					s = onlyHooks(scans.NewClusterWide(ns, s.Name, s.Spec.ScanType, s.Spec.Parameters...), "elastic-"+ns)
					clusterRelease(ctx, install.Release{Chart: "persistence-elastic", Name: "elastic-" + ns, Namespace: ns, Values: values})
				} else {
					chart(ctx, "nmap", ns, nil)
					chart(ctx, "persistence-elastic", ns, values)
				}
				got := done(ctx, s)
				want := map[string]string{string(got.UID): "scan"}
				for _, f := range findings(ctx, got) {
					want[string(got.UID)+"_"+f.ID.String()] = "finding"
				}
				store.mu.Lock()
				defer store.mu.Unlock()
				types := map[string]string{}
				parsed := meta.FindStatusCondition(got.Status.Conditions, executionv1.ConditionParsed)
				index := "scb_" + ns + "_" + parsed.LastTransitionTime.UTC().Format(time.DateOnly)
				for id, document := range store.documents {
					types[id] = fmt.Sprint(document["type"])
					Expect(store.writes[id]).To(Equal(1), "document %s was written %d times", id, store.writes[id])
				}
				if diff := cmp.Diff(want, types); diff != "" || len(store.refused) == 0 {
					Fail(fmt.Sprintf("documents, of which %d were refused at first (-want +got):\n%s", len(store.refused), diff))
				}
				Expect(store.indices[index]).To(BeTrue(), "indices %v, want %s", store.indices, index)
			})
		}
	})

	It("get an SBOM in the project of its image, as Dependency-Track has it", func(ctx SpecContext) {
		const sbom = `{"bomFormat":"CycloneDX","specVersion":"1.6","metadata":{"component":{"type":"container","name":"registry.example.com/shop/web:1.2.3"}},"components":[]}`
		there := startFarEnd(func(e exchange) reply {
			if e.Method != http.MethodPost || e.URL.Path != "/api/v1/bom" || e.Header.Get("X-Api-Key") != "odt_key" {
				return reply{status: http.StatusUnauthorized}
			}
			return reply{text: `{"token":"9f0b2c1e-0d3f-4d29-8f43-0a1a5a0c7a11"}`}
		})
		ns := namespace(ctx)
		create(ctx, shellType(ns, "sbom-cyclonedx"), parser(ns, "sbom-cyclonedx"),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "dependencytrack-credentials"}, StringData: map[string]string{"apikey": "odt_key"}})
		chart(ctx, "persistence-dependencytrack", ns, map[string]any{"dependencytrack": map[string]any{"url": there.URL}})
		done(ctx, shellScan(ns, "components", "printf '%s' '"+sbom+"' >"+resultPath))
		all := slices.DeleteFunc(there.all(), func(e exchange) bool { return e.Method == http.MethodGet }) // what it asks about decisions
		Expect(all).To(HaveLen(1), "Dependency-Track got %d requests, want one", len(all))
		_, params, err := mime.ParseMediaType(all[0].Header.Get("Content-Type"))
		Expect(err).NotTo(HaveOccurred())
		form, err := multipart.NewReader(bytes.NewReader(all[0].body), params["boundary"]).ReadForm(1 << 20)
		Expect(err).NotTo(HaveOccurred())
		got := map[string]string{}
		for _, field := range []string{"autoCreate", "projectName", "projectVersion"} {
			got[field] = strings.Join(form.Value[field], ",")
		}
		Expect(got).To(BeComparableTo(map[string]string{"autoCreate": "true", "projectName": "registry.example.com/shop/web", "projectVersion": "1.2.3"}), "form")
		Expect(len(form.Value["bom"])+len(form.File["bom"])).To(Equal(1), "the form has %d SBOMs", len(form.Value["bom"])+len(form.File["bom"]))
	})

	// Sends a mail about a Scan with open ports, and one about a Scan
	// that failed, to a mail server that wants TLS and a password; and none about a Scan
	// that no rule selects.
	It("get a mail about open ports and one about a failed Scan, by TLS and password", func(ctx SpecContext) {
		const user, password, ca = "scanner@example.com", "Tm41lp4ssw0rdT", "/certificates"
		box, err := mailbox.Start(mailbox.Options{User: user, Password: password})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() {
			Expect(box.Close()).To(Succeed())
		})
		ns := namespace(ctx)
		create(ctx, shellType(ns, "nmap-xml", once), parser(ns, "nmap-xml"), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "mail"},
			StringData: map[string]string{"ca.pem": string(box.CA), "server": fmt.Sprintf("smtp://%s:%s@%s:%d", url.QueryEscape(user), password, mailbox.Localhost, box.Port)},
		})
		chart(ctx, "notification", ns, map[string]any{
			"notificationChannels": []any{map[string]any{
				"name": "team", "type": "email", "template": "email", "endPoint": "team@example.com", "skipNotificationOnZeroFindings": true,
				"rules": []any{map[string]any{"matches": map[string]any{"anyOf": []any{map[string]any{"category": "Open Port"}}}}},
			}},
			"env": []any{
				map[string]any{"name": "SMTP_CONFIG", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "mail", "key": "server"}}},
				map[string]any{"name": "NODE_EXTRA_CA_CERTS", "value": ca + "/ca.pem"},
				map[string]any{"name": "EMAIL_FROM", "value": "Security scans <scans@example.com>"},
			},
			"hook": map[string]any{
				"runOn":             "Always",
				"extraVolumes":      []any{map[string]any{"name": "mail", "secret": map[string]any{"secretName": "mail"}}},
				"extraVolumeMounts": []any{map[string]any{"name": "mail", "mountPath": ca, "readOnly": true}},
			},
		})
		done(ctx, shellScan(ns, "with-ports", "printf '%s' '"+nmapXML("80", "443")+"' >"+resultPath))
		done(ctx, shellScan(ns, "without-ports", "printf '%s' '"+nmapXML()+"' >"+resultPath))
		failing := shellScan(ns, "failing", "exit 3")
		create(ctx, failing)
		until(ctx, failing, "have told everybody", toldEverybody)
		mails := map[string]mailbox.Mail{}
		for _, m := range box.Mails() {
			for _, name := range []string{"with-ports", "without-ports", "failing"} {
				if strings.Contains(m.Text, name) {
					mails[name] = m
				}
			}
		}
		if len(box.Mails()) != 2 || len(mails) != 2 || mails["with-ports"].Text == "" || mails["failing"].Text == "" {
			Fail(fmt.Sprintf("the mail server took %d mails, want one of with-ports and one of failing: %+v", len(box.Mails()), box.Mails()))
		}
		for name, says := range map[string][]string{"with-ports": {"Open Port: 2"}, "failing": {"failed"}} {
			m := mails[name]
			if !slices.Equal(m.Recipients, []string{"team@example.com"}) || m.Header.Get("From") != `"Security scans" <scans@example.com>` || m.Header.Get("Message-Id") == "" {
				Fail(fmt.Sprintf("mail %s went to %v with the header %v", name, m.Recipients, m.Header))
			}
			for _, part := range says {
				if !strings.Contains(m.Text, part) || m.HTML == "" {
					Fail(fmt.Sprintf("mail %s does not say %q:\n%s\n%s", name, part, m.Text, m.HTML))
				}
			}
		}
		if log := podLogs(ctx, ns); strings.Contains(log, password) {
			Fail(fmt.Sprintf("a log holds the password:\n%s", log))
		}
	})

	It("are not needed for static reports, which lie beside the findings and go with the Scan", func(ctx SpecContext) {
		web, ns := webSite(), namespace(ctx)
		chart(ctx, "nmap", ns, nil)
		chart(ctx, "persistence-static-report", ns, nil)
		got := done(ctx, scans.New(ns, "reported", "nmap", "-p", strconv.Itoa(web.Port), web.Host))
		wantStored(ctx, got, "findings.json", "nmap-results.xml", "report.html", "report.sarif", "report.junit.xml", "report.csv", "report.md")
		wants := map[string][]string{"report.md": {got.Name}} // a summary
		for _, f := range findings(ctx, got) {
			for _, report := range []string{"report.html", "report.sarif", "report.junit.xml", "report.csv"} {
				wants[report] = append(wants[report], f.Name.String())
			}
		}
		for report, parts := range wants {
			text := object(ctx, got, report)
			for _, part := range parts {
				Expect(bytes.Contains(text, []byte(part))).To(BeTrue(), "%s of %d bytes does not name %q", report, len(text), part)
			}
		}
		wantGoneTogether(ctx, []*executionv1.Scan{got})
	})
})

// visible is what people see of a Scan and its hooks: by who looks after a cluster, and
// by who reads the Scan.
func visible(ctx context.Context, s *executionv1.Scan) map[string]string {
	GinkgoHelper()
	out := map[string]string{}
	show := func(where string, v any) {
		b, err := json.Marshal(v)
		Expect(err).NotTo(HaveOccurred())
		out[where] = string(b)
	}
	logs, err := w.op.Logs(ctx)
	Expect(err).NotTo(HaveOccurred())
	out["the operator's log"] = linesWith(logs, s.Namespace)
	var now executionv1.Scan
	var events eventsv1.EventList
	Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(s), &now)).To(Succeed())
	Expect(w.admin.List(ctx, &events, client.InNamespace(s.Namespace))).To(Succeed())
	pods := podsOf(ctx, s.Namespace)
	show("the Scan", now)
	show("an Event", events.Items)
	for _, pod := range pods {
		show("the status of pod "+pod.Name, pod.Status)
	}
	out["the log of a pod"] = podLogs(ctx, s.Namespace)
	if !strings.Contains(out["the log of a pod"], "hook ") || len(events.Items) == 0 || len(pods) == 0 || out["the operator's log"] == "" {
		Fail(fmt.Sprintf("there is nothing to look at: %v", out))
	}
	return out
}

// linesWith returns the lines of a text that hold a word.
func linesWith(text, word string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// elastic stands in for Elasticsearch: it takes what its documentation allows, and turns
// the first document of every bulk request away once, as a busy node does.
type elastic struct {
	authorization string

	mu        sync.Mutex
	indices   map[string]bool
	refused   map[string]bool
	documents map[string]map[string]any
	writes    map[string]int
}

func newElastic(authorization string) *elastic {
	return &elastic{authorization: authorization, indices: map[string]bool{}, refused: map[string]bool{}, documents: map[string]map[string]any{}, writes: map[string]int{}}
}

func (e *elastic) answer(r exchange) reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Header.Get("Authorization") != e.authorization:
		return reply{http.StatusUnauthorized, `{"error":{"type":"security_exception","reason":"missing authentication credentials"}}`}
	case r.Method == http.MethodPost && r.URL.Path == "/_bulk" && r.Header.Get("Content-Type") == "application/x-ndjson":
		return e.bulk(r.body)
	case r.Header.Get("Content-Type") != "application/json":
		return reply{http.StatusNotAcceptable, `{"error":{"type":"media_type_header_exception","reason":"Content-Type header is not supported"}}`}
	case r.Method == http.MethodPut && len(path) == 1:
		if e.indices[path[0]] {
			return reply{http.StatusBadRequest, `{"error":{"type":"resource_already_exists_exception","reason":"it is there"}}`}
		}
		e.indices[path[0]] = true
		return reply{http.StatusOK, `{"acknowledged":true}`}
	case r.Method == http.MethodPut && len(path) == 3 && path[1] == "_doc" && e.indices[path[0]]:
		if err := e.index(path[2], r.body); err != nil {
			return reply{http.StatusBadRequest, `{"error":{"type":"document_parsing_exception","reason":"failed to parse"}}`}
		}
		return reply{http.StatusCreated, `{"result":"created"}`}
	}
	return reply{http.StatusMethodNotAllowed, `{"error":{"type":"illegal_argument_exception","reason":"no handler found"}}`}
}

func (e *elastic) index(id string, source []byte) error {
	var document map[string]any
	if err := json.Unmarshal(source, &document); err != nil {
		return err
	}
	e.documents[id] = document
	e.writes[id]++
	return nil
}

// bulk answers for each action on its own.
func (e *elastic) bulk(body []byte) reply {
	text, ended := bytes.CutSuffix(body, []byte("\n"))
	lines := bytes.Split(text, []byte("\n"))
	if !ended || len(lines)%2 != 0 {
		return reply{http.StatusBadRequest, `{"error":{"type":"illegal_argument_exception","reason":"The bulk request must be terminated by a newline"}}`}
	}
	items, failed := []any{}, false
	for i := 0; i < len(lines); i += 2 {
		var action struct {
			Index struct {
				Index string `json:"_index"`
				ID    string `json:"_id"`
			} `json:"index"`
		}
		err := json.Unmarshal(lines[i], &action)
		if err != nil || !e.indices[action.Index.Index] || action.Index.ID == "" {
			return reply{http.StatusBadRequest, `{"error":{"type":"illegal_argument_exception","reason":"Malformed action/metadata line"}}`}
		}
		result := map[string]any{"_index": action.Index.Index, "_id": action.Index.ID, "status": http.StatusCreated}
		switch {
		case i == 0 && !e.refused[action.Index.ID]:
			e.refused[action.Index.ID], failed = true, true
			result["status"], result["error"] = http.StatusTooManyRequests, map[string]any{"type": "es_rejected_execution_exception", "reason": "busy"}
		case e.index(action.Index.ID, lines[i+1]) != nil:
			failed = true
			result["status"], result["error"] = http.StatusBadRequest, map[string]any{"type": "document_parsing_exception", "reason": "failed to parse"}
		}
		items = append(items, map[string]any{"index": result})
	}
	b, err := json.Marshal(map[string]any{"errors": failed, "items": items})
	if err != nil {
		return reply{status: http.StatusInternalServerError}
	}
	return reply{text: string(b)}
}

// clusterRelease installs the chart of a hook for the whole cluster, to run in the
// release's namespace, and removes it at the end. The hook is called like the release.
func clusterRelease(ctx context.Context, r install.Release) {
	GinkgoHelper()
	values := map[string]any{"clusterWide": true, "executionNamespace": r.Namespace, "fullnameOverride": r.Name}
	maps.Copy(values, r.Values)
	r.Values = values
	release(ctx, r)
	DeferCleanup(func(ctx SpecContext) {
		Expect(w.helm.Uninstall(ctx, r.Name, r.Namespace)).To(Succeed())
	})
}
