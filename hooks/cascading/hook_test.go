// SPDX-License-Identifier: Apache-2.0

package cascading_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/hooks/cascading"
)

// scanWith is a Scan of nmap in ns.
func scanWith(cascades, more string) string {
	return `{"apiVersion":"execution.securecodebox.io/v1","kind":"Scan","metadata":{"name":"nmap-x","namespace":"ns","uid":"uid-parent","generation":3,` +
		`"annotations":{"scope.cascading.securecodebox.io/domain":"example.com"}},` +
		`"spec":{"scanType":"nmap","parameters":["example.com"],"nodeSelector":{"zone":"a"},"cascades":` + cascades + more + `},` +
		`"status":{"state":"HookProcessing","rawResultType":"nmap-xml"}}`
}

func ruleWith(kind, name, condition, more string) string {
	return fmt.Sprintf(`{"apiVersion":"cascading.securecodebox.io/v1","kind":%q,"metadata":{"name":%q,"labels":{"team":"a"}},`+
		`"spec":{"matches":{"anyOf":[%s]},"scanSpec":{"scanType":"sslyze","parameters":["{{$.hostOrIP}}:{{attributes.port}}"]}%s}}`, kind, name, condition, more)
}

func port(id string, number int, host string) string {
	return fmt.Sprintf(`{"id":%q,"name":"p","category":"Open Port","severity":"LOW","attributes":{"port":%d,"hostname":%q}}`, id, number, host)
}

var twoPorts = "[" + port("f-1", 443, "a.example.com") + "," + port("f-2", 8443, "b.example.com") + "]"

const anyPort = `{"category":"Open Port"}`

func names(a *api) []string {
	out := []string{}
	for _, path := range a.created {
		out = append(out, path[strings.LastIndexByte(path, '/')+1:])
	}
	return out
}

func TestHookCreatesOnceHoweverOftenItRuns(t *testing.T) {
	a := newAPI(t)
	for _, name := range []string{"a-rule", "b-rule", "c-rule"} {
		a.put(rulesPath+"/"+name, ruleWith("CascadingRule", name, anyPort, ""))
	}
	// The hook is killed after each number of requests and runs again.
	for kill := 1; kill < 12; kill++ {
		a.n = 0
		a.fault = func(_, _ string, n int) int {
			if n > kill {
				return http.StatusForbidden
			}
			return 0
		}
		a.run(t, scanWith(`{}`, ""), twoPorts)
	}
	a.fault = nil
	got := a.run(t, scanWith(`{}`, ""), twoPorts)
	if got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	if len(a.created) != 6 {
		t.Errorf("%d Scans were created, want 6: %v", len(a.created), names(a))
	}
	parameters := map[string]int{}
	for _, scan := range a.scans(t) {
		parameters[fmt.Sprint(scan["spec"].(map[string]any)["parameters"])]++
	}
	if diff := cmp.Diff(map[string]int{"[a.example.com:443]": 3, "[b.example.com:8443]": 3}, parameters); diff != "" {
		t.Error(diff)
	}
	for _, name := range names(a) {
		if !strings.HasPrefix(name, "sslyze-x-") || len(name) > 63 {
			t.Errorf("name %q", name)
		}
	}
}

func TestHookSeesOneFamilyOfKinds(t *testing.T) {
	for mode, want := range map[string]string{"namespaceLocal": "own-", "clusterWide": "everywhere-"} {
		t.Run(mode, func(t *testing.T) {
			a := newAPI(t)
			a.put(rulesPath+"/own", ruleWith("CascadingRule", "own", anyPort, ""))
			a.put(clusterRulesPath+"/everywhere", ruleWith("ClusterCascadingRule", "everywhere", anyPort, ""))
			a.put("/apis/execution.securecodebox.io/v1/namespaces/ns/parsedefinitions/nmap-xml", `{"spec":{"scopeLimiterAliases":{"host":"{{attributes.hostname}}"}}}`)
			a.put("/apis/execution.securecodebox.io/v1/clusterparsedefinitions/nmap-xml", `{"spec":{"scopeLimiterAliases":{"host":"{{attributes.hostname}}"}}}`)
			limiter := `{"scopeLimiter":{"allOf":[{"key":"scope.cascading.securecodebox.io/domain","operator":"SubdomainOf","values":["{{$.host}}"]}]}}`
			got := a.run(t, scanWith(limiter, `,"resourceMode":"`+mode+`"`), "["+port("1", 443, "a.example.com")+","+port("2", 443, "a.example.org")+"]")
			if got.ExitCode != 0 || len(a.created) != 1 || !strings.Contains(names(a)[0], want) {
				t.Errorf("exit code %d, created %v: %s", got.ExitCode, names(a), got.Stderr)
			}
			for _, r := range a.requests {
				if cluster := strings.Contains(r, "cluster"); cluster != (mode == "clusterWide") && !strings.Contains(r, "/scans") {
					t.Errorf("%s was asked for", r)
				}
			}
		})
	}
}

func TestHookFailures(t *testing.T) {
	limiter := `{"scopeLimiter":{"allOf":[{"key":"scope.cascading.securecodebox.io/domain","operator":"SubdomainOf","values":["{{attributes.hostname}}"]}]}}`
	definition := "/apis/execution.securecodebox.io/v1/namespaces/ns/parsedefinitions/nmap-xml"
	cases := map[string]struct {
		cascades, findings string
		objects            map[string]string
		fault              func(method, path string, n int) int
		exitCode, created  int
		says               string
		reason             string
	}{
		"NoCascades": {
			cascades: "null", exitCode: 0, says: "the Scan has no spec.cascades, so it starts nothing",
			reason: "a Scan that does not ask for it cascades nothing",
		},
		"NothingSelected": {
			cascades: `{"matchLabels":{"team":"b"}}`, exitCode: 0, says: `0 CascadingRules are selected by "team=b"`,
			reason: "labels select",
		},
		"NoRuleMatches": {
			cascades: `{}`, findings: "[" + port("1", 22, "h") + "]", objects: map[string]string{rulesPath + "/r": ruleWith("CascadingRule", "r", `{"attributes":{"port":443}}`, "")},
			exitCode: 0, says: "rule r: not fired: it matches none of 1 findings", reason: "the log says why",
		},
		"BadRuleBesideGood": {
			cascades: `{}`, objects: map[string]string{
				rulesPath + "/bad":  ruleWith("CascadingRule", "bad", anyPort, `,"scanAnnotations":{"scope.cascading.securecodebox.io/domain":"evil.example"}`),
				rulesPath + "/good": ruleWith("CascadingRule", "good", anyPort, ""),
			},
			exitCode: 1, created: 2, says: "rule bad: scanAnnotations has scope.cascading.securecodebox.io/domain: no rule may change what bounds the scope; the other rules have started what they start",
			reason: "one mistake must not cost the children of others",
		},
		"BadTemplateBesideGood": {
			cascades: `{}`, objects: map[string]string{
				rulesPath + "/bad":  ruleWith("CascadingRule", "bad", anyPort, `,"scanLabels":{"l":"{{#open}}"}`),
				rulesPath + "/good": ruleWith("CascadingRule", "good", anyPort, ""),
			},
			exitCode: 1, created: 2, says: "rule bad: scanSpec, scanLabels or scanAnnotations: scanLabels.l: template", reason: "the same",
		},
		"BadTemplateOfNoUse": {
			cascades: `{}`, objects: map[string]string{rulesPath + "/bad": ruleWith("CascadingRule", "bad", `{"name":"other"}`, `,"scanLabels":{"l":"{{#open}}"}`)},
			exitCode: 0, says: "rule bad: not fired", reason: "where it does not match, a broken rule does no harm",
		},
		"HugeNumberInOneRule": {
			cascades: `{}`, objects: map[string]string{
				rulesPath + "/a": ruleWith("CascadingRule", "a", `{"attributes":{"port":99999999999999999999}}`, ""),
				rulesPath + "/b": ruleWith("CascadingRule", "b", anyPort, ""),
			},
			exitCode: 0, created: 2, says: "rule a: not fired", reason: "a number that no field could hold spoils nothing but itself",
		},
		"ExpressionWithMistake": {
			cascades: `{}`, objects: map[string]string{
				rulesPath + "/a": `{"kind":"CascadingRule","metadata":{"name":"a"},"spec":{"matches":{"expression":"finding.categry == 'x'"},"scanSpec":{"scanType":"x","parameters":[]}}}`,
				rulesPath + "/b": ruleWith("CascadingRule", "b", anyPort, ""),
			},
			exitCode: 1, created: 2, says: `rule a: matches.expression: a finding has no field "categry"`, reason: "an expression is checked before it is used",
		},
		"ScopeCannotBeTold": {
			cascades: limiter, findings: "[" + port("1", 443, "a.example.com") + "," + port("2", 443, "localhost") + "]",
			objects:  map[string]string{rulesPath + "/r": ruleWith("CascadingRule", "r", anyPort, ""), definition: `{"spec":{}}`},
			exitCode: 1, created: 0, says: `nothing is started: finding 1: scopeLimiter.allOf: operator SubdomainOf: "localhost" ends in a reserved name`,
			reason: "when in doubt, nothing is started",
		},
		"NoParseDefinitionForScope": {
			cascades: limiter, objects: map[string]string{rulesPath + "/r": ruleWith("CascadingRule", "r", anyPort, "")},
			exitCode: 1, says: "there is no ParseDefinition nmap-xml, whose scopeLimiterAliases the scope of this Scan may need", reason: "without aliases a scope may seem wider",
		},
		"RulesForbidden": {
			cascades: `{}`, fault: func(string, string, int) int { return http.StatusForbidden },
			exitCode: 1, says: "list CascadingRule: the API server answers 403 Forbidden: fault", reason: "a hook that cannot look must not look as if there was nothing",
		},
		"OneCreationRefused": {
			cascades: `{}`, objects: map[string]string{rulesPath + "/a": ruleWith("CascadingRule", "a", anyPort, ""), rulesPath + "/b": ruleWith("CascadingRule", "b", anyPort, "")},
			fault: func(method, _ string, n int) int {
				if method == http.MethodPost && n <= 3 {
					return http.StatusForbidden
				}
				return 0
			},
			exitCode: 1, created: 2, says: "rule a: 2 Scans were not started, the first since create Scan sslyze-x-a-", reason: "the rest is tried",
		},
		"NameTaken": {
			cascades: `{}`, findings: "[" + port("f-1", 443, "h.example.com") + "]",
			objects: map[string]string{
				rulesPath + "/a":                         ruleWith("CascadingRule", "a", anyPort, ""),
				scansPath + "/sslyze-x-a-" + takenSuffix: `{"metadata":{"name":"sslyze-x-a-` + takenSuffix + `","ownerReferences":[{"uid":"another","controller":true}]}}`,
			},
			exitCode: 1, says: "there is one of that name that this Scan does not own", reason: "another client's Scan is not ours",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			for path, object := range c.objects {
				a.put(path, object)
			}
			a.fault = c.fault
			if c.findings == "" {
				c.findings = twoPorts
			}
			got := a.run(t, scanWith(c.cascades, ""), c.findings)
			if got.ExitCode != c.exitCode || len(a.created) != c.created || !strings.Contains(got.Stderr, c.says) {
				t.Errorf("%s: exit code %d, created %v, stderr %q, want %d, %d, %q", c.reason, got.ExitCode, names(a), got.Stderr, c.exitCode, c.created, c.says)
			}
		})
	}
}

// takenSuffix ends the name of the child of rule a and finding f-1. It must never change: hooks of older releases have
// used it.
const takenSuffix = "2552f5f87c6e"

func TestHookToleratesARuleThatIsGone(t *testing.T) {
	a := newAPI(t)
	a.put(rulesPath+"/second", ruleWith("CascadingRule", "second", anyPort, ""))
	scan := strings.Replace(scanWith(`{}`, ""), `"annotations":{`, `"annotations":{"cascading.securecodebox.io/chain":"first",`, 1)
	got := a.run(t, scan, "["+port("1", 1, "h")+"]")
	if got.ExitCode != 0 || len(a.created) != 1 || !strings.Contains(got.Stderr, "CascadingRule first, which started this Scan, is gone") {
		t.Errorf("exit code %d, created %v: %s", got.ExitCode, names(a), got.Stderr)
	}
}

// TestForeignNamesAreIgnored: the chain of a Scan is an annotation that whoever writes the Scan chooses, and the hook for
// the cluster may read more than they. So it asks for nothing whose name is none.
func TestForeignNamesAreIgnored(t *testing.T) {
	for _, name := range []string{
		"../../../../api/v1/namespaces/scanyard-system/secrets/my-secret", "..", ".", "a/../b", "%2e%2e", "%2f", "never?watch=true", "never#x", "a\\b", "a b", "-a", "UPPER", strings.Repeat("a", 254), "",
	} {
		annotated := func(scan string) string {
			encoded, err := json.Marshal("first," + name)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Replace(scan, `"annotations":{`, `"annotations":{"cascading.securecodebox.io/chain":`+string(encoded)+`,`, 1)
		}
		typed := func(scan string) string {
			encoded, err := json.Marshal(name)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Replace(scan, `"rawResultType":"nmap-xml"`, `"rawResultType":`+string(encoded), 1)
		}
		limiter := `{"scopeLimiter":{"allOf":[{"key":"scope.cascading.securecodebox.io/domain","operator":"Contains","values":["x"]}]}}`
		for what, scan := range map[string]string{"Chain": annotated(scanWith(`{}`, "")), "ResultType": typed(scanWith(limiter, ""))} {
			a := newAPI(t)
			a.put(rulesPath+"/second", ruleWith("CascadingRule", "second", anyPort, ""))
			got := a.run(t, scan, twoPorts)
			if got.ExitCode != 1 || len(a.created) != 0 || !strings.Contains(got.Stderr, "is not a valid name of a ") {
				t.Errorf("%s %q: exit code %d, created %v: %s", what, name, got.ExitCode, names(a), got.Stderr)
			}
			for _, request := range a.requests {
				if !strings.HasPrefix(request, "GET "+rulesPath) && !strings.Contains(request, "/scans/") || strings.Contains(request, "secrets") {
					t.Errorf("%s %q: it asked for %s", what, name, request)
				}
			}
		}
	}
}

// TestHookStartsNoFlood: a result of many findings starts as many Scans as there is room for, and says what it left out.
func TestHookStartsNoFlood(t *testing.T) {
	var findings []string
	for i := range 1005 {
		findings = append(findings, port(fmt.Sprintf("f-%d", i), i+1, "h.example.com"))
	}
	all := "[" + strings.Join(findings, ",") + "]"
	for name, c := range map[string]struct {
		cascades, most string
		created        int
		says           string
	}{
		"Default":   {`{}`, "", 1000, "5 Scans were not started"},
		"Fewer":     {`{}`, "3", 3, "1002 Scans were not started"},
		"NoBound":   {`{}`, "0", 1005, ""},
		"OfTheScan": {`{"maxScans":4}`, "3", 4, "1001 Scans were not started"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			a.env = map[string]string{"CASCADE_MAX_CHILDREN": c.most}
			a.put(rulesPath+"/r", ruleWith("CascadingRule", "r", anyPort, ""))
			got := a.run(t, scanWith(c.cascades, ""), all)
			message := strings.Join(a.patches, "\n")
			if got.ExitCode != 0 || len(a.created) != c.created || !strings.Contains(got.Stderr, c.says) {
				t.Errorf("exit code %d, created %d: %.300s", got.ExitCode, len(a.created), got.Stderr)
			}
			if (c.says != "") != strings.Contains(message, cascading.ReasonChildrenLeftOut) || !strings.Contains(message, c.says) {
				t.Errorf("the condition says %q", message)
			}
		})
	}
	a := newAPI(t)
	a.env = map[string]string{"CASCADE_MAX_CHILDREN": "many"}
	if got := a.run(t, scanWith(`{}`, ""), "[]"); got.ExitCode == 0 || !strings.Contains(got.Stderr, `CASCADE_MAX_CHILDREN is "many"`) {
		t.Errorf("exit code %d: %s", got.ExitCode, got.Stderr)
	}
}

// TestHookLetsFindingsChooseNoOptions: others of the rule are started, and the condition names this one.
func TestHookLetsFindingsChooseNoOptions(t *testing.T) {
	a := newAPI(t)
	a.put(rulesPath+"/r", ruleWith("CascadingRule", "r", anyPort, ""))
	got := a.run(t, scanWith(`{}`, ""), "["+port("1", 443, "-oN /tmp/x")+","+port("2", 443, "h.example.com")+"]")
	if got.ExitCode != 0 || len(a.created) != 1 || !strings.Contains(got.Stderr, "would begin with '-'") {
		t.Errorf("exit code %d, created %v: %s", got.ExitCode, names(a), got.Stderr)
	}
	if message := strings.Join(a.patches, "\n"); !strings.Contains(message, "1 Scans were not started, since a finding would have chosen an option of the scanner. By rule: r (1).") {
		t.Errorf("the condition says %q", message)
	}
}

func TestHookBrakes(t *testing.T) {
	same := "[" + port("1", 443, "h") + "," + port("2", 443, "h") + "," + port("3", 80, "h") + "]"
	cases := map[string]struct {
		cascades, chain string
		existing        int // Scans of the chain
		created         int
		says            string
		reason          string
	}{
		"None":           {`{}`, "", 0, 3, "3 Scans started", "every match starts a Scan"},
		"Deduplicate":    {`{"deduplicate":true}`, "", 0, 2, "rule r: the chain has equal Scans already (1 equal ones were left out)", "equal ones are one"},
		"MaxDepth":       {`{"maxDepth":1}`, "first", 0, 0, "rule r: not fired: maxDepth is 1 and this Scan is at depth 1", "no deeper"},
		"MaxDepthBelow":  {`{"maxDepth":2}`, "first", 0, 3, "3 Scans started", "one more level"},
		"MaxScans":       {`{"maxScans":2}`, "", 0, 2, "rule r: maxScans is 2 and the chain has as many (1 were left out)", "no more"},
		"MaxScansOthers": {`{"maxScans":2}`, "", 1, 1, "(2 were left out)", "those of the whole chain count"},
		"MaxScansFull":   {`{"maxScans":2}`, "", 2, 0, "rule r: not fired: maxScans is 2", "nor one"},
		"MaxScansNone":   {`{"maxScans":0}`, "", 0, -1, "spec.cascades.maxScans is 0, want a number of at least 1", "0 would be a riddle"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			a.put(rulesPath+"/r", ruleWith("CascadingRule", "r", anyPort, ""))
			scan := scanWith(c.cascades, "")
			if c.chain != "" {
				scan = strings.Replace(scan, `"annotations":{`, `"annotations":{"cascading.securecodebox.io/chain":"`+c.chain+`",`, 1)
			}
			for i := range c.existing {
				a.put(fmt.Sprintf("%s/other-%d", scansPath, i), fmt.Sprintf(`{"metadata":{"name":"other-%d","labels":{"cascading.scanyard.io/root":"uid-parent"}}}`, i))
			}
			for range 2 { // once more changes nothing
				got := a.run(t, scan, same)
				if failed := got.ExitCode != 0; failed != (c.created < 0) || len(a.created) != max(0, c.created) || !strings.Contains(got.Stderr, c.says) {
					t.Errorf("%s: exit code %d, created %v, stderr %q, want %d and %q", c.reason, got.ExitCode, names(a), got.Stderr, c.created, c.says)
				}
			}
		})
	}
}

// TestDeduplicateAcrossTheChain has two Scans of one chain start the same.
func TestDeduplicateAcrossTheChain(t *testing.T) {
	a := newAPI(t)
	a.put(rulesPath+"/r", ruleWith("CascadingRule", "r", anyPort, ""))
	child := func(uid, name, chain string) string {
		scan := strings.ReplaceAll(scanWith(`{"deduplicate":true}`, ""), "uid-parent", uid)
		return strings.Replace(scan, `"annotations":{`, `"labels":{"cascading.scanyard.io/root":"uid-root"},"annotations":{"cascading.securecodebox.io/chain":"`+chain+`",`, 1)
	}
	for i, chain := range []string{"one", "two"} {
		got := a.run(t, child(fmt.Sprintf("uid-%d", i), "x", chain), "["+port(strconv.Itoa(i), 443, "h")+"]")
		if got.ExitCode != 0 || len(a.created) != 1 {
			t.Fatalf("exit code %d, created %v: %s", got.ExitCode, names(a), got.Stderr)
		}
		if i == 1 && !strings.Contains(got.Stderr, "started elsewhere in the chain") {
			t.Errorf("stderr %q", got.Stderr)
		}
	}
	// Another chain has its own.
	got := a.run(t, strings.ReplaceAll(child("uid-9", "x", "one"), "uid-root", "uid-elsewhere"), "["+port("9", 443, "h")+"]")
	if got.ExitCode != 0 || len(a.created) != 2 {
		t.Errorf("exit code %d, created %v: %s", got.ExitCode, names(a), got.Stderr)
	}
}

func TestHookWarnsOfCategoriesThatAreGone(t *testing.T) {
	hooks := `"orderedHookStatuses":[[{"hookName":"defectdojo","type":"ReadAndWrite","state":"Completed"}],[{"hookName":"cascading-scans","type":"ReadOnly","state":"InProgress"}]],"state"`
	cases := map[string]struct {
		replace, with, condition string
		patch                    []string
		reason                   string
	}{
		"WriterBefore": {`"state"`, hooks, anyPort, []string{`"status":"False"`, `"reason":"CategoryMissing"`, `\"Open Port\"`, "which rules r need", "defectdojo", `"lastTransitionTime":"2030-01-02T03:04:05Z"`, `"observedGeneration":3`}, "the writer may have taken it away"},
		"NoWriter":     {`"state"`, `"state"`, anyPort, nil, "the parser has never written it"},
		"OtherReason":  {`"state"`, hooks, `{"category":"DefectDojo*","attributes":{"port":1}}`, nil, "the category is there, something else is not"},
		"Over": {
			`"state"`, `"conditions":[{"type":"CascadingRulesMatched","status":"False"}],"state"`, anyPort,
			[]string{`"status":"True"`, `"reason":"CategoriesFound"`},
			"what was said before must not stay for ever",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			a.put(rulesPath+"/r", ruleWith("CascadingRule", "r", c.condition, ""))
			scan := strings.Replace(scanWith(`{}`, ""), c.replace, c.with, 1)
			got := a.run(t, scan, `[{"id":"1","category":"DefectDojo Imported Finding","severity":"LOW"}]`)
			if got.ExitCode != 0 {
				t.Fatal(got.Stderr)
			}
			if warned := strings.Contains(got.Stderr, "warning: No finding has category"); warned != (name == "WriterBefore") {
				t.Errorf("%s: stderr %q", c.reason, got.Stderr)
			}
			if len(a.patches) != min(1, len(c.patch)) {
				t.Fatalf("%s: patches %v", c.reason, a.patches)
			}
			for _, text := range c.patch {
				if !strings.Contains(a.patches[0], text) {
					t.Errorf("%s: %s is not in %s", c.reason, text, a.patches[0])
				}
			}
		})
	}
}

// TestHookTellsTheOperator holds that a hook whose Scan was handed over writes no status: it needs no right to.
func TestHookTellsTheOperator(t *testing.T) {
	a := newAPI(t)
	a.handOver = true
	a.put(rulesPath+"/r", ruleWith("CascadingRule", "r", anyPort, ""))
	hooks := `"orderedHookStatuses":[[{"hookName":"defectdojo","type":"ReadAndWrite","state":"Completed"}]],"state"`
	got := a.run(t, strings.Replace(scanWith(`{}`, ""), `"state"`, hooks, 1), `[{"id":"1","category":"DefectDojo Imported Finding","severity":"LOW"}]`)
	o, err := outcome.Decode([]byte(got.LastWords))
	if got.ExitCode != 0 || err != nil {
		t.Fatalf("exit code %d, last words %q: %v", got.ExitCode, got.LastWords, err)
	}
	if len(o.Conditions) != 1 || o.Conditions[0].Type != cascading.ConditionMatched || o.Conditions[0].Status != outcome.False ||
		o.Conditions[0].Reason != cascading.ReasonCategoryMissing || !strings.Contains(o.Conditions[0].Message, "which rules r need") {
		t.Errorf("outcome %+v", o)
	}
	if len(a.patches) > 0 {
		t.Errorf("it patches %v", a.patches)
	}
}

func TestHookOutlastsAShortOutage(t *testing.T) {
	a := newAPI(t)
	a.put(rulesPath+"/r", ruleWith("CascadingRule", "r", anyPort, ""))
	failed := map[string]bool{}
	a.fault = func(method, path string, _ int) int {
		if key := method + path; !failed[key] {
			failed[key] = true
			return http.StatusServiceUnavailable
		}
		return 0
	}
	got := a.run(t, scanWith(`{}`, ""), twoPorts)
	if got.ExitCode != 0 || len(a.created) != 2 {
		t.Errorf("exit code %d, created %v: %s", got.ExitCode, names(a), got.Stderr)
	}
}

func TestHookInheritsWhatItIsAskedTo(t *testing.T) {
	rule := `{"kind":"CascadingRule","metadata":{"name":"r"},"spec":{"matches":{"anyOf":[{}]},"scanSpec":{"scanType":"sslyze","parameters":[],` +
		`"nodeSelector":{"disk":"ssd"},"resources":{"limits":{"cpu":"2"}},"ttlSecondsAfterFinished":30}}}`
	cases := map[string]struct {
		cascades string
		want     map[string]any
		says     string
	}{
		"AsEver": {`{}`, map[string]any{}, "rule r: nodeSelector, resources, ttlSecondsAfterFinished of its scanSpec have no effect"},
		"All": {
			`{"inheritNodeSelector":true,"inheritResources":true,"inheritTTLSecondsAfterFinished":true}`,
			map[string]any{
				"nodeSelector": map[string]any{"zone": "a", "disk": "ssd"}, "resources": map[string]any{"limits": map[string]any{"cpu": "2"}},
				"ttlSecondsAfterFinished": 30.0,
			},
			"started Scan",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			a.put(rulesPath+"/r", rule)
			got := a.run(t, scanWith(c.cascades, ""), "["+port("1", 1, "h")+"]")
			if got.ExitCode != 0 || len(a.created) != 1 || !strings.Contains(got.Stderr, c.says) {
				t.Fatalf("exit code %d, created %v: %s", got.ExitCode, names(a), got.Stderr)
			}
			spec := a.scans(t)[0]["spec"].(map[string]any)
			have := map[string]any{}
			for key, value := range spec {
				if slices.Contains([]string{"nodeSelector", "resources", "ttlSecondsAfterFinished"}, key) {
					have[key] = value
				}
			}
			if diff := cmp.Diff(c.want, have); diff != "" {
				t.Error(diff)
			}
		})
	}
}
