// SPDX-License-Identifier: Apache-2.0

package persistencedependencytrack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

type fixture struct {
	Env    map[string]string `json:"env"`
	Answer struct {
		Status int `json:"status"`
	} `json:"answer"`
	Scan      json.RawMessage `json:"scan"`
	RawResult json.RawMessage `json:"rawResult"`
	Expected  struct {
		Error    any       `json:"error"`
		Requests []request `json:"requests"`
	} `json:"expected"`
}

type request struct {
	Method    string            `json:"method"`
	URL       string            `json:"url"`
	Headers   map[string]string `json:"headers"`
	Multipart [][2]string       `json:"multipart"`
}

// network answers every request with a status and keeps it.
type network struct {
	status   int
	requests []request
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet { // what the hook asks about decisions: there are none
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	fields, err := fieldsOf(r.Header, body)
	if err != nil {
		return nil, err
	}
	n.requests = append(n.requests, request{r.Method, r.URL.String(), map[string]string{"X-API-Key": r.Header.Get("X-API-Key")}, fields})
	return &http.Response{StatusCode: n.status, Header: http.Header{}, Body: http.NoBody, Request: r}, r.Body.Close()
}

// fieldsOf reads a form, which must not hold files.
func fieldsOf(header http.Header, body []byte) ([][2]string, error) {
	kind, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return nil, fmt.Errorf("content type %q, %w", kind, err)
	}
	var fields [][2]string
	for form := multipart.NewReader(bytes.NewReader(body), parameters["boundary"]); ; {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return fields, nil
		}
		if err != nil {
			return nil, err
		}
		value, err := io.ReadAll(part)
		if err != nil || part.FileName() != "" {
			return nil, fmt.Errorf("field %s is a file, %w", part.FormName(), err)
		}
		fields = append(fields, [2]string{part.FormName(), string(value)})
	}
}

func TestFixturePersistenceDependencyTrack(t *testing.T) {
	sdktest.Cases(t, "persistence-dependencytrack", func(t *testing.T, c fixture) {
		w := sdktest.New(t)
		w.Scan = string(c.Scan)
		// A text is what the store holds; anything else is the document itself.
		var text string
		w.Objects["/raw"] = c.RawResult
		if json.Unmarshal(c.RawResult, &text) == nil {
			w.Objects["/raw"] = []byte(text)
		}
		far := &network{status: c.Answer.Status}
		w.Transport = far
		got := w.Run(t, Hook(), c.Env)
		wantFailure := c.Expected.Error != nil && c.Expected.Error != false
		if failed := got.ExitCode != 0; failed != wantFailure {
			t.Fatalf("failed: %t, want %t: %s", failed, wantFailure, got.Stderr)
		}
		// A repeated attempt is the same request again.
		sent := slices.CompactFunc(far.requests, func(a, b request) bool { return cmp.Equal(a, b) })
		if diff := cmp.Diff(c.Expected.Requests, sent); diff != "" && len(c.Expected.Requests)+len(sent) > 0 {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

const sbom = `{"bomFormat":"CycloneDX","specVersion":"1.6","metadata":{"component":{"type":"container","name":"team/app:1"}},"components":[]}`

// scanOf is a Scan with annotations in JSON.
func scanOf(annotations string) string {
	return `{"metadata":{"uid":"u-1","name":"nmap-x","namespace":"ns","annotations":` + annotations + `},"status":{"rawResultType":"sbom-cyclonedx"}}`
}

func TestProject(t *testing.T) {
	const prefix = `"dependencytrack.securecodebox.io/`
	about := func(component string) string {
		return `{"bomFormat":"CycloneDX","metadata":{"tools":[{"name":"x"}],"component":` + component + `}}`
	}
	named := func(name string) string { return about(`{"name":"` + name + `"}`) }
	digest := "sha256:" + strings.Repeat("0a", 32)
	cases := map[string]struct {
		annotations string
		bom         string
		any         string
		want        string // name and version, and what follows
		fails       string
	}{
		"Tag":            {"{}", named("docker.io/team/app:1.2"), "", "docker.io/team/app|1.2", ""},
		"Digest":         {"{}", named("team/app@" + digest), "", "team/app|" + digest, ""},
		"TagAndDigest":   {"{}", named("team/app:1@" + digest), "", "team/app|1", ""},
		"Neither":        {"{}", named("app"), "", "app|latest", ""},
		"VersionIsNoTag": {"{}", about(`{"name":"app","version":"9"}`), "", "app|latest", ""},
		"Annotations":    {"{" + prefix + `project-name":"A",` + prefix + `project-version":"B"}`, named("!"), "", "A|B", ""},
		"NameOnly":       {"{" + prefix + `project-name":"A"}`, named("app:1"), "", "A|1", ""},
		"Everything": {
			"{" + prefix + `parent-name":"P",` + prefix + `parent-version":"1",` + prefix + `project-tags":"a,b",` + prefix + `is-latest":"true"}`,
			named("app:1"), "", "app|1|parentName=P|parentVersion=1|projectTags=a,b|isLatest=true", "",
		},
		"UpperCase":        {"{}", named("My-Folder"), "", "", `the SBOM is about "My-Folder"`},
		"UpperCaseAny":     {"{}", named("My-Folder"), "true", "My-Folder|latest", ""},
		"FolderAny":        {"{}", about(`{"name":"/src/a b","version":"2"}`), "true", "/src/a b|2", ""},
		"AnyStaysExact":    {"{}", named("app:1"), "true", "app|1", ""},
		"NoName":           {"{}", about(`{"type":"file"}`), "true", "", "does not say what it is about"},
		"NoComponent":      {"{}", `{"bomFormat":"CycloneDX"}`, "", "", "does not say what it is about"},
		"NoComponentNamed": {"{" + prefix + `project-name":"A",` + prefix + `project-version":"B"}`, `{"bomFormat":"CycloneDX","metadata":null}`, "", "A|B", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan, w.Objects["/raw"] = scanOf(c.annotations), []byte(c.bom)
			far := &network{status: http.StatusOK}
			w.Transport = far
			got := w.Run(t, Hook(), map[string]string{"DEPENDENCYTRACK_URL": "http://example.com", "DEPENDENCYTRACK_APIKEY": "k", "DEPENDENCYTRACK_ANY_NAME": c.any})
			if c.fails != "" {
				if got.ExitCode == 0 || !strings.Contains(got.Stderr, c.fails) || !strings.Contains(got.Stderr, "project-name") || len(far.requests) != 0 {
					t.Errorf("exit code %d, %d requests, stderr %q, want %q", got.ExitCode, len(far.requests), got.Stderr, c.fails)
				}
				return
			}
			if got.ExitCode != 0 || len(far.requests) != 1 {
				t.Fatalf("%d requests, %s", len(far.requests), got.Stderr)
			}
			fields := far.requests[0].Multipart
			sent := []string{fields[1][1], fields[2][1]}
			for _, f := range fields[3 : len(fields)-1] {
				sent = append(sent, f[0]+"="+f[1])
			}
			if diff := cmp.Diff(c.want, strings.Join(sent, "|")); diff != "" {
				t.Errorf("project (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSentDocument holds that the SBOM arrives as it is but for white space, whatever its size, and what is ignored.
func TestSentDocument(t *testing.T) {
	large := strings.TrimSuffix(sbom, "]}") + strings.Repeat(`{"name":"lib","n":1},`, 400_000) + "{}]}"
	cases := map[string]struct{ raw, want string }{
		"AsItIs":      {sbom, sbom},
		"WhiteSpace":  {"\n" + strings.ReplaceAll(sbom, ",", " ,\r\n\t") + " \n", sbom},
		"Texts":       {`{ "bomFormat" : "CycloneDX", "x": " a \" b \\", "y" :1e999, "metadata":{"component":{"name":"a"}} }`, `{"bomFormat":"CycloneDX","x":" a \" b \\","y":1e999,"metadata":{"component":{"name":"a"}}}`},
		"Large":       {large, large},
		"OtherFormat": {`{"bomFormat":"SPDX"}`, ""},
		"NoFormat":    {`{"metadata":{"component":{"name":"a"}}}`, ""},
		"FormatOdd":   {`{"bomFormat":["CycloneDX"]}`, ""},
		"List":        {`[{"bomFormat":"CycloneDX"}]`, ""},
		"CutOff":      {sbom[:len(sbom)-1], ""},
		"TwoOfThem":   {sbom + sbom, ""},
		"XML":         {`<bom/>`, ""},
		"Empty":       {``, ""},
		"Comma":       {strings.Replace(sbom, "[]", "[1,]", 1), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan, w.Objects["/raw"] = scanOf("{}"), []byte(c.raw)
			far := &network{status: http.StatusOK}
			w.Transport = far
			got := w.Run(t, Hook(), map[string]string{"DEPENDENCYTRACK_URL": "http://example.com", "DEPENDENCYTRACK_APIKEY": "k"})
			if got.ExitCode != 0 {
				t.Fatal(got.Stderr)
			}
			if c.want == "" {
				if len(far.requests) != 0 || !strings.Contains(got.Stderr, "nothing to upload") {
					t.Errorf("%d requests, stderr %q", len(far.requests), got.Stderr)
				}
				return
			}
			if len(far.requests) != 1 {
				t.Fatalf("%d requests", len(far.requests))
			}
			fields := far.requests[0].Multipart
			if last := fields[len(fields)-1]; last[0] != "bom" || last[1] != c.want {
				t.Errorf("field %s of %d bytes, want %d", last[0], len(last[1]), len(c.want))
			}
		})
	}
}

// TestStoreFails holds that a raw result that cannot be read is not taken for one that is not an SBOM.
func TestStoreFails(t *testing.T) {
	w := sdktest.New(t)
	w.Scan = scanOf("{}")
	delete(w.Objects, "/raw")
	got := w.Run(t, Hook(), map[string]string{"DEPENDENCYTRACK_URL": "http://example.com", "DEPENDENCYTRACK_APIKEY": "k"})
	if got.ExitCode == 0 || !strings.Contains(got.Stderr, "get raw result") {
		t.Errorf("exit code %d, stderr %q", got.ExitCode, got.Stderr)
	}
}

// tracker stands in for Dependency-Track: an upload replaces what its project had.
type tracker struct {
	projects map[string]string
	uploads  int
	// ready is how often it is asked until an upload is processed; old knows the question of versions before 4.11 only.
	ready, asked int
	old          bool
}

func (d *tracker) take(r sdktest.Request) sdktest.Reply {
	reply := func(status int, text string) sdktest.Reply {
		return sdktest.Reply{Status: status, Body: text, Header: map[string]string{"Content-Type": "application/json"}}
	}
	question := "/api/v1/event/token/t-1"
	if d.old {
		question = "/api/v1/bom/token/t-1"
	}
	switch {
	case r.Header.Get("X-Api-Key") != "s3cr3t":
		return reply(http.StatusUnauthorized, `"no key `+r.Header.Get("X-Api-Key")+`"`)
	case r.Method == http.MethodGet && r.URL == question:
		d.asked++
		return reply(http.StatusOK, fmt.Sprintf(`{"processing":%t}`, d.asked < d.ready))
	case r.Method != http.MethodPost || r.URL != "/api/v1/bom":
		return reply(http.StatusNotFound, "")
	}
	fields, err := fieldsOf(r.Header, r.Body)
	if err != nil || len(fields) != 4 || !json.Valid([]byte(fields[3][1])) {
		return reply(http.StatusBadRequest, "")
	}
	d.uploads++
	d.projects[fields[1][1]+" "+fields[2][1]] = fields[3][1]
	return reply(http.StatusOK, `{"token":"t-1"}`)
}

// has says whether the SBOM is there, once.
func (d *tracker) has(sbom string) error {
	if diff := cmp.Diff(map[string]string{"team/app 1": sbom}, d.projects); diff != "" {
		return fmt.Errorf("projects (-want +got):\n%.2000s", diff)
	}
	return nil
}

func envOf(more map[string]string) func(url string) map[string]string {
	return func(url string) map[string]string {
		env := map[string]string{"DEPENDENCYTRACK_URL": url + "/", "DEPENDENCYTRACK_APIKEY": "s3cr3t"}
		maps.Copy(env, more)
		return env
	}
}

// TestKilledEverywhere kills the hook at the upload and at each question, with an SBOM that is in no memory.
func TestKilledEverywhere(t *testing.T) {
	large := strings.TrimSuffix(sbom, "]}") + strings.Repeat(`{"name":"lib","version":"1.0.0"},`, 200_000) + "{}]}"
	sdktest.Delivery{
		Hook: Hook(), Env: envOf(map[string]string{"DEPENDENCYTRACK_WAIT": "5m"}),
		Prepare: func(w *sdktest.World) { w.Scan, w.Objects["/raw"] = scanOf("{}"), []byte(large) },
		Remote: func() (func(sdktest.Request) sdktest.Reply, func() error) {
			d := &tracker{projects: map[string]string{}, ready: 3}
			return d.take, func() error { return d.has(large) }
		},
	}.KillEverywhere(t)
}

func TestFaults(t *testing.T) {
	cases := map[string]sdktest.Reply{
		"TooMany": {Status: 429, Header: map[string]string{"Retry-After": "3"}}, "Error": {Status: 500}, "Away": {Status: 503},
		"Half": {Body: `{"token":"t-1"}`, Half: true}, "Drop": {Drop: true}, "Hang": {Hang: time.Minute},
	}
	for name, fault := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan, w.Objects["/raw"] = scanOf("{}"), []byte(sbom)
			d := &tracker{projects: map[string]string{}, ready: 3}
			far := w.NewRemote(t, func(n int, r sdktest.Request) sdktest.Reply {
				if n%2 == 0 {
					return fault
				}
				return d.take(r)
			})
			env := envOf(map[string]string{"DEPENDENCYTRACK_WAIT": "30m", "DELIVERY_BUDGET": "5m"})(far.URL)
			if got := w.Run(t, Hook(), env); got.ExitCode != 0 {
				t.Fatal(got.Stderr)
			}
			if err := d.has(sbom); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWait(t *testing.T) {
	cases := map[string]struct {
		far   tracker
		wait  string
		asked int
		fails string
	}{
		"NotAsked": {tracker{ready: 100}, "", 0, ""},
		"AtOnce":   {tracker{ready: 1}, "5m", 1, ""},
		"Later":    {tracker{ready: 10}, "5m", 10, ""},
		"Old":      {tracker{ready: 2, old: true}, "5m", 2, ""},
		"TooLong":  {tracker{ready: 1000}, "20s", 5, "wait for the processing: given up after 5 attempts: Dependency-Track at 127.0.0.1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan, w.Objects["/raw"] = scanOf("{}"), []byte(sbom)
			d := &c.far
			d.projects = map[string]string{}
			far := w.NewRemote(t, func(_ int, r sdktest.Request) sdktest.Reply { return d.take(r) })
			got := w.Run(t, Hook(), envOf(map[string]string{"DEPENDENCYTRACK_WAIT": c.wait})(far.URL))
			if failed := got.ExitCode != 0; failed != (c.fails != "") || !strings.Contains(got.Stderr, c.fails) || d.asked != c.asked || d.uploads != 1 {
				t.Errorf("exit code %d, %d uploads, asked %d times, stderr %q, want %d, %q", got.ExitCode, d.uploads, d.asked, got.Stderr, c.asked, c.fails)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	reply := func(status int, text string) func(int, sdktest.Request) sdktest.Reply {
		return func(n int, _ sdktest.Request) sdktest.Reply {
			if n == 0 && status == 0 {
				return sdktest.Reply{Body: `{"token":"t-1"}`}
			}
			return sdktest.Reply{Status: status, Body: text}
		}
	}
	cases := map[string]struct {
		far  func(int, sdktest.Request) sdktest.Reply
		env  map[string]string
		want string
	}{
		"KeyWrong":      {reply(401, ""), nil, "answers 401 Unauthorized; the team of the API key needs the permission BOM_UPLOAD"},
		"NotAllowed":    {reply(403, ""), nil, "PROJECT_CREATION_UPLOAD"},
		"NoProject":     {reply(404, ""), nil, "answers 404 Not Found"},
		"TokenOdd":      {reply(200, "x"), map[string]string{"DEPENDENCYTRACK_WAIT": "1m"}, "read the response of Dependency-Track"},
		"TokenMissing":  {reply(200, "{}"), map[string]string{"DEPENDENCYTRACK_WAIT": "1m"}, "has no token"},
		"AnswerOdd":     {reply(0, "{}"), map[string]string{"DEPENDENCYTRACK_WAIT": "1m"}, "does not say whether"},
		"AddressOdd":    {reply(200, ""), map[string]string{"DEPENDENCYTRACK_URL": "s3cr3t"}, "DEPENDENCYTRACK_URL is not an http:// or https:// address"},
		"KeyMissing":    {reply(200, ""), map[string]string{"DEPENDENCYTRACK_APIKEY": ""}, "DEPENDENCYTRACK_APIKEY is not set"},
		"AddressUnset":  {reply(200, ""), map[string]string{"DEPENDENCYTRACK_URL": ""}, "DEPENDENCYTRACK_URL is not set"},
		"WaitOdd":       {reply(200, ""), map[string]string{"DEPENDENCYTRACK_WAIT": "long"}, `DEPENDENCYTRACK_WAIT is "long"`},
		"AnyNameOdd":    {reply(200, ""), map[string]string{"DEPENDENCYTRACK_ANY_NAME": "1"}, "DEPENDENCYTRACK_ANY_NAME is neither"},
		"AutoCreateOdd": {reply(200, ""), map[string]string{"DEPENDENCYTRACK_AUTO_CREATE": "1"}, "DEPENDENCYTRACK_AUTO_CREATE is neither"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Scan, w.Objects["/raw"] = scanOf("{}"), []byte(sbom)
			far := w.NewRemote(t, c.far)
			got := w.Run(t, Hook(), envOf(c.env)(far.URL))
			if got.ExitCode == 0 || !strings.Contains(got.Stderr, c.want) || strings.Contains(got.Stderr, "s3cr3t") {
				t.Errorf("exit code %d, stderr %q, want %q", got.ExitCode, got.Stderr, c.want)
			}
		})
	}
}

// TestAutoCreate holds that projects are made unless one says otherwise.
func TestAutoCreate(t *testing.T) {
	for value, want := range map[string]string{"": "true", "true": "true", "false": "false"} {
		w := sdktest.New(t)
		w.Scan, w.Objects["/raw"] = scanOf("{}"), []byte(sbom)
		far := &network{status: http.StatusOK}
		w.Transport = far
		env := envOf(map[string]string{"DEPENDENCYTRACK_AUTO_CREATE": value})("http://example.com")
		if got := w.Run(t, Hook(), env); got.ExitCode != 0 || far.requests[0].Multipart[0] != [2]string{"autoCreate", want} {
			t.Errorf("%q sends %v, %s", value, far.requests, got.Stderr)
		}
	}
}
