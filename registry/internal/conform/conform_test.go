// SPDX-License-Identifier: Apache-2.0

package conform_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/scanyard/scanyard/registry/internal/conform"
	"github.com/scanyard/scanyard/registry/internal/mini"
)

// TestMain is the adapter, as it should be or with a fault, where a check starts this file's program.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "adapter" {
		adapter(os.Args[2])
	}
	os.Exit(m.Run())
}

// object is a line of either side.
type object = map[string]any

// fault is what is wrong with an adapter. A request that is not passed on is not answered by mini.
type fault struct {
	begin   func()
	line    func(line string)
	request func(op string, r object) (pass bool)
	answer  func(op string, r, a object)
	// twice answers each request two times, hasty ends with its input, code is that of the end.
	twice, hasty bool
	code         int
}

func adapter(name string) {
	f := faults[name]
	if f.begin != nil {
		f.begin()
	}
	in, toMini := io.Pipe()
	fromMini, out := io.Pipe()
	var mutex sync.Mutex
	requests := map[string]object{}
	print := func(text []byte) {
		mutex.Lock()
		defer mutex.Unlock()
		fmt.Printf("%s\n", text)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		var late sync.WaitGroup
		defer late.Wait()
		lines := bufio.NewScanner(fromMini)
		lines.Buffer(nil, 2<<20)
		for lines.Scan() {
			var a object
			if json.Unmarshal(lines.Bytes(), &a) != nil {
				os.Exit(9)
			}
			mutex.Lock()
			r := requests[fmt.Sprint(a["id"])]
			mutex.Unlock()
			if f.answer != nil && a["type"] != "progress" && r != nil {
				f.answer(fmt.Sprint(r["op"]), r, a)
			}
			text, _ := json.Marshal(a)
			if f.hasty {
				late.Go(func() {
					time.Sleep(300 * time.Millisecond)
					print(text)
				})
				continue
			}
			print(text)
			if f.twice && a["type"] != "progress" {
				print(text)
			}
		}
	}()
	go func() {
		lines := bufio.NewReader(os.Stdin)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			var r object
			if f.line != nil {
				f.line(line)
			}
			if json.Unmarshal([]byte(line), &r) == nil && r != nil {
				mutex.Lock()
				requests[fmt.Sprint(r["id"])] = r
				mutex.Unlock()
				if f.request != nil && !f.request(fmt.Sprint(r["op"]), r) {
					text, _ := json.Marshal(object{"v": 1, "id": r["id"], "type": "result", "result": object{}})
					print(text)
					continue
				}
				text, _ := json.Marshal(r)
				line = string(text) + "\n"
			}
			io.WriteString(toMini, line)
		}
		if f.hasty {
			os.Exit(0)
		}
		toMini.Close()
	}()
	err := mini.Run(context.Background(), nil, mini.Streams{In: in, Out: out, Err: io.Discard, Now: time.Now})
	out.Close()
	<-written
	if err != nil {
		os.Exit(1)
	}
	os.Exit(f.code)
}

// result gives a member of a result; nil where the answer is an error.
func result(a object) object {
	r, _ := a["result"].(object)
	return r
}

func params(r object) object {
	p, _ := r["params"].(object)
	return p
}

// answering changes the results of an operation.
func answering(want string, change func(r, result object)) fault {
	return fault{answer: func(op string, r, a object) {
		if op == want && result(a) != nil {
			change(r, result(a))
		}
	}}
}

// asking changes the params of an operation.
func asking(want string, change func(p object)) fault {
	return fault{request: func(op string, r object) bool {
		if op == want && params(r) != nil {
			change(params(r))
		}
		return true
	}}
}

// rewriting changes a document that a result names, and its sum.
func rewriting(op string, file func(result object) object, change func(content []byte) []byte) fault {
	return answering(op, func(r, result object) {
		f := file(result)
		if f == nil {
			return
		}
		path := filepath.Join(fmt.Sprint(r["workdir"]), fmt.Sprint(f["path"]))
		content, err := os.ReadFile(path)
		if err != nil {
			os.Exit(8)
		}
		content = change(content)
		if os.WriteFile(path, content, 0o600) != nil {
			os.Exit(8)
		}
		sum := sha256.Sum256(content)
		f["bytes"], f["sha256"] = len(content), hex.EncodeToString(sum[:])
	})
}

func documentOf(format string) func(object) object {
	return func(result object) object {
		files, _ := result["files"].(object)
		f, _ := files[format].(object)
		return f
	}
}

func memberOf(name string) func(object) object {
	return func(result object) object {
		f, _ := result[name].(object)
		return f
	}
}

func replacing(old, by string) func([]byte) []byte {
	return func(content []byte) []byte { return bytes.ReplaceAll(content, []byte(old), []byte(by)) }
}

// unique makes each document another one.
func unique(content []byte) []byte {
	return append(content, strings.Repeat("\n", 1+int(time.Now().UnixNano()%100_000))...)
}

func setting(name string, value any) func(r, result object) {
	return func(_, result object) { result[name] = value }
}

func eachLayer(change func(layer object)) func(p object) {
	return func(p object) {
		layers, _ := p["layers"].([]any)
		for _, l := range layers {
			change(l.(object))
		}
	}
}

// visit connects to the address that a manifest names for a layer.
func visit(p object) {
	image := p["image"].(object)
	request, _ := http.NewRequest(http.MethodGet, fmt.Sprint(image["url"], "/v2/", image["reference"], "/manifests/", image["digest"]), nil)
	request.Header.Set("Authorization", fmt.Sprint("Bearer ", image["token"]))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		os.Exit(7)
	}
	content, _ := io.ReadAll(response.Body)
	if found := regexp.MustCompile(`"urls":\["http://([0-9.:]+)/`).FindSubmatch(content); found != nil {
		if c, err := net.Dial("tcp", string(found[1])); err == nil {
			c.Close()
		}
	}
}

// damaged ends the adapter over a cache that holds a byte 0.
func damaged(p object) {
	filepath.WalkDir(fmt.Sprint(p["cacheDir"]), func(path string, d os.DirEntry, _ error) error {
		if content, err := os.ReadFile(path); err == nil && !d.IsDir() && bytes.IndexByte(content, 0) >= 0 {
			os.Exit(6)
		}
		return nil
	})
}

var said = 0

var faults = map[string]fault{
	"none":           {},
	"describe-fails": {answer: func(op string, _, a object) { fail(op == "describe", a) }},
	"no-name":        answering("describe", setting("name", "")),
	"protocol-2":     answering("describe", setting("protocols", []int{2})),
	"format-text":    answering("describe", setting("sbom", object{"formats": []string{"text"}, "parallel": 1})),
	"no-parallel":    answering("describe", setting("sbom", object{"formats": []string{"spdx-json"}, "parallel": 0})),
	"changes-mind": answering("describe", func(_, result object) {
		said++
		result["version"] = strconv.Itoa(said)
	}),
	"ping-fails": {answer: func(op string, _, a object) { fail(op == "ping", a) }},
	"sings": {answer: func(op string, _, a object) {
		if op == "sing" {
			delete(a, "error")
			a["type"], a["result"] = "result", object{}
		}
	}},
	"strict": {answer: func(_ string, r, a object) { fail(r["colour"] != nil, a) }},
	"frail": {line: func(line string) {
		if !strings.HasPrefix(line, "{") {
			os.Exit(5)
		}
	}},
	"any-version": {request: func(_ string, r object) bool { return r["v"] == 1.0 }},
	"cancels-all": {answer: func(op string, _, a object) {
		if op == "cancel" {
			delete(a, "error")
			a["type"], a["result"] = "result", object{}
		}
	}},
	"ascii": {answer: func(_ string, _, a object) {
		if id := fmt.Sprint(a["id"]); strings.ContainsAny(id, "ü☃") {
			a["id"] = "?"
		}
	}},
	"twice":           {twice: true},
	"cancel-fails":    {answer: func(op string, _, a object) { fail(op == "cancel", a) }},
	"code-3":          {code: 3},
	"hasty":           {hasty: true},
	"deaf-to-signals": {begin: func() { signal.Ignore(syscall.SIGTERM) }},
	"hello":           {begin: func() { fmt.Println("Hello!") }},
	"one-format": answering("sbom", func(_, result object) {
		if files, is := result["files"].(object); is {
			delete(files, "cyclonedx-json")
		}
	}),
	"bad-spdx":       rewriting("sbom", documentOf("spdx-json"), replacing("CC0-1.0", "MIT")),
	"bad-cyclonedx":  rewriting("sbom", documentOf("cyclonedx-json"), replacing(`"1.6"`, `"1.2"`)),
	"no-packages":    answering("sbom", setting("packages", 0)),
	"seven-packages": answering("sbom", setting("packages", 7)),
	"no-word":        answering("sbom", setting("completeness", "")),
	"unique-sbom":    rewriting("sbom", documentOf("spdx-json"), unique),
	"no-cancel":      {request: func(op string, _ object) bool { return op != "cancel" }},
	"no-deadline": {request: func(_ string, r object) bool {
		delete(r, "deadline")
		return true
	}},
	"all-internal": {answer: func(_ string, _, a object) {
		if a["type"] == "error" {
			a["error"] = object{"code": "Internal", "message": "?", "retryable": true}
		}
	}},
	"no-limits": asking("sbom", func(p object) { delete(p, "limits") }),
	"litter": {request: func(op string, r object) bool {
		if op == "sbom" {
			os.WriteFile(filepath.Join(fmt.Sprint(r["workdir"]), "..", "litter"), nil, 0o600)
		}
		return true
	}},
	"visitor":      asking("sbom", visit),
	"crash":        {request: func(op string, _ object) bool { return op != "sbom" || exit() }},
	"no-reuse":     asking("sbom", eachLayer(func(l object) { delete(l, "cached") })),
	"always-reuse": asking("sbom", eachLayer(func(l object) { l["cached"] = true })),
	"no-scope":     asking("sbom", func(p object) { delete(p, "cacheScope") }),
	"fragile":      asking("sbom", damaged),
	"absent":       answering("db-status", setting("present", false)),
	"present":      answering("db-status", setting("present", true)),
	"changed":      answering("db-update", setting("changed", true)),
	"other-ids":    rewriting("match", memberOf("file"), replacing("CVE-", "XVE-")),
	"reversed": rewriting("match", memberOf("file"), func(content []byte) []byte {
		lines := slices.Collect(bytes.Lines(content))
		slices.Reverse(lines)
		return bytes.Join(lines, nil)
	}),
	"unique-findings": rewriting("match", memberOf("file"), func(content []byte) []byte {
		return bytes.Replace(content, []byte(`"title":"`), fmt.Appendf(nil, `"title":"%d `, time.Now().UnixNano()), 1)
	}),
	"loud-keys":    rewriting("match", memberOf("keysFile"), replacing("npm|", "NPM|")),
	"incomparable": answering("db-diff", setting("comparable", false)),
	"keeps":        {request: func(op string, _ object) bool { return op != "db-drop" }},
}

// fail makes an answer an error.
func fail(when bool, a object) {
	if when {
		delete(a, "result")
		a["type"], a["error"] = "error", object{"code": "Internal", "message": "?"}
	}
}

func exit() bool {
	os.Exit(4)
	return false
}

// broken names for each check the fault that it must find. Those of hostile images are found by a crash.
var broken = map[string]string{
	"describe is answered within 5 seconds":              "describe-fails",
	"describe has all its members":                       "no-name",
	"describe names protocol 1":                          "protocol-2",
	"describe names formats that are known":              "format-text",
	"describe says how many requests may overlap":        "no-parallel",
	"describe says the same twice":                       "changes-mind",
	"ping is answered":                                   "ping-fails",
	"an unknown operation is Unsupported":                "sings",
	"unknown members are ignored":                        "strict",
	"garbage is passed over":                             "frail",
	"an empty line is passed over":                       "frail",
	"a line of 2 MiB is passed over":                     "frail",
	"a request of another version is an error":           "any-version",
	"params of another form are InvalidRequest":          "cancels-all",
	"answers carry the id of their request":              "ascii",
	"requests overlap and are answered once each":        "twice",
	"cancel of a request that is not there is answered":  "cancel-fails",
	"the end of input ends the adapter with 0":           "code-3",
	"the end of input at once ends the adapter with 0":   "code-3",
	"what was asked before the end of input is answered": "hasty",
	"SIGTERM ends the adapter":                           "deaf-to-signals",
	"nothing is written before the first request":        "hello",
	"the SBOM of an image is made in all formats":        "one-format",
	"the SPDX document is valid":                         "bad-spdx",
	"the CycloneDX document is valid":                    "bad-cyclonedx",
	"the SBOM knows packages of the image":               "no-packages",
	"the result says how complete the SBOM is":           "no-word",
	"equal images have equal documents":                  "unique-sbom",
	"SBOMs one after the other do not mix":               "seven-packages",
	"cancel ends a request":                              "no-cancel",
	"a deadline ends a request":                          "no-deadline",
	"the end of input lets a request end":                "hasty",
	"a token that is not good is Unauthorized":           "all-internal",
	"an image that is not there is NotFound":             "all-internal",
	"a blob that does not fit its digest makes no SBOM":  "all-internal",
	"a bound of compressed bytes is kept to":             "no-limits",
	"a bound of uncompressed bytes is kept to":           "no-limits",
	"a bound of files is kept to":                        "no-limits",
	"a document outside of workdir is refused":           "all-internal",
	"nothing is written outside of workdir and cacheDir": "litter",
	"nobody is connected to but the proxy":               "visitor",
	"a layer that is known is not read again":            "no-reuse",
	"a layer that may not come from the cache is read":   "always-reuse",
	"scopes do not share layers":                         "no-scope",
	"a diffID of other content poisons no cache":         "all-internal",
	"a cache that is damaged is read as empty":           "fragile",
	"two processes share a cache":                        "crash",
	"SIGKILL leaves a cache that works":                  "crash",
	"a database is taken from a file":                    "absent",
	"a database that is there is not changed":            "changed",
	"a database that is not there is told":               "present",
	"a broken database is refused and leaves nothing":    "all-internal",
	"a match gives the known findings":                   "other-ids",
	"findings are in order":                              "reversed",
	"equal SBOMs have equal findings":                    "unique-findings",
	"every finding's package has keys":                   "loud-keys",
	"an SBOM that is broken is InvalidInput":             "all-internal",
	"a match without a database is DatabaseMissing":      "all-internal",
	"equal databases differ in nothing":                  "incomparable",
	"db-drop removes a database":                         "keeps",
	"an image is survived: a diffID of other content":    "all-internal",
	"an image is survived: an archive that ends early":   "all-internal",
	"an image is survived: links out of the tree":        "litter",
}

// hold runs checks on an adapter with a fault.
func hold(t *testing.T, name string, only ...string) (string, bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../testdata/advisories/*.json")
	if err != nil {
		t.Fatal(err)
	}
	all, err := mini.ReadAdvisories(files...)
	if err != nil {
		t.Fatal(err)
	}
	database := filepath.Join(t.TempDir(), "advisories.json")
	if err := all.Write(database); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o := conform.Options{Path: self, Args: []string{"adapter", name}, Database: database, Out: &out, Only: only}
	if name != "none" {
		o.Patience = 10 * time.Second
	}
	if name == "no-cancel" || name == "no-deadline" {
		o.Patience = time.Second
	}
	passed, err := conform.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), passed
}

func TestConformingAdapterPasses(t *testing.T) {
	out, passed := hold(t, "none")
	if !passed || strings.Contains(out, "SKIP") || strings.Contains(out, "not ok") {
		t.Errorf("want all checks made and passed, got\n%s", out)
	}
	if n := len(conform.Names()); n < 40 || !strings.HasPrefix(out, fmt.Sprintf("TAP version 14\n1..%d\nok 1 - ", n)) {
		t.Errorf("want 40 checks at least, got %d", n)
	}
}

func TestEachCheckFindsABrokenAdapter(t *testing.T) {
	names := conform.Names()
	for name := range broken {
		if !slices.Contains(names, name) {
			t.Errorf("there is no check %q", name)
		}
	}
	for _, name := range names {
		fault := broken[name]
		if fault == "" && strings.HasPrefix(name, "an image is survived: ") {
			fault = "crash"
		}
		if fault == "" {
			t.Errorf("no adapter is broken for the check %q", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, passed := hold(t, fault, name); passed || !strings.Contains(out, "\nnot ok 1 - "+name) {
				t.Errorf("the fault %s was not found:\n%s", fault, out)
			}
		})
	}
}

// TestExample holds the adapter of the documentation to the protocol.
func TestExample(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no Python on this machine")
	}
	text, err := os.ReadFile("../../../docs/add-an-adapter.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(text, []byte("```python\n"))
	program, _, found := bytes.Cut(rest, []byte("```"))
	if !found {
		t.Fatal("the page has no example")
	}
	file := filepath.Join(t.TempDir(), "adapter")
	if err := os.WriteFile(file, program, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	passed, err := conform.Run(t.Context(), conform.Options{Path: python, Args: []string{file}, Out: &out})
	if err != nil || !passed {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestPathMustBeExecutable(t *testing.T) {
	if _, err := conform.Run(t.Context(), conform.Options{Path: "/not/there", Out: io.Discard}); err == nil {
		t.Error("want an error")
	}
}
