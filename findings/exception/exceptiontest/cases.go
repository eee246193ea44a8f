// SPDX-License-Identifier: Apache-2.0

// Package exceptiontest has the cases of which exception holds for which finding. Every place that goes by exceptions runs them.
package exceptiontest

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
)

// Finding is the finding of all cases, as it is in findings.json.
const Finding = `{"id":"1","fingerprint":"f1","name":"lodash 4.17.20","category":"Vulnerability","severity":"HIGH",` +
	`"location":"oci://registry.example.com/web:1.2","references":[{"type":"CVE","value":"cve-2021-23337"}],` +
	`"attributes":{"purl":"pkg:npm/lodash@4.17.20","port":443}}`

// Bare is the same finding of a parser that makes no fingerprints.
const Bare = `{"id":"1","name":"lodash 4.17.20","category":"Vulnerability","severity":"HIGH"}`

// Case is one finding and the exceptions that there are.
type Case struct {
	Name    string
	Finding string
	List    []exception.Exception
	// Want names the exception that holds, as KIND/NAME; empty where none does.
	Want string
	// Suppressed says whether the finding counts no longer.
	Suppressed bool
}

// Cases are those of the specification, for Scans of a namespace at a time.
func Cases(namespace string, now time.Time) []Case {
	own := func(name, entry string) exception.Exception { return of(namespace, name, entry) }
	cluster := func(name, entry string) exception.Exception { return of("", name, entry) }
	const broad, exact = `{"names":["lodash*"]}`, `{"fingerprints":["f1"]}`
	doubt, ended, ahead, ending := own("doubt", broad), own("ended", broad), own("ahead", broad), own("ending", broad)
	doubt.Spec.Status = settingsv1alpha2.ExceptionUnderInvestigation
	past, soon := metav1.NewTime(now.Add(-time.Hour)), metav1.NewTime(now.Add(time.Hour))
	ended.Spec.ExpiresAt, ahead.Spec.NotBefore, ending.Spec.ExpiresAt = &past, &soon, &soon
	elsewhere := cluster("elsewhere", broad)
	elsewhere.Scope.Namespaces = []string{"other-*"}
	type list = []exception.Exception
	return []Case{
		{"None", Finding, nil, "", false},
		{"Fingerprint", Finding, list{own("one", exact)}, "FindingException/one", true},
		{"NoFingerprint", Bare, list{own("one", exact)}, "", false},
		{"OtherKeysWithoutFingerprint", Bare, list{own("one", exact), own("two", broad)}, "FindingException/two", true},
		{"FingerprintBeforeBroader", Finding, list{own("a", broad), own("b", exact)}, "FindingException/b", true},
		{"NamespaceBeforeCluster", Finding, list{cluster("a", exact), own("b", broad)}, "FindingException/b", true},
		{"ByName", Finding, list{own("b", broad), own("a", broad)}, "FindingException/a", true},
		{"Cluster", Finding, list{cluster("all", `{"references":["CVE-2021-23337"]}`)}, "ClusterFindingException/all", true},
		{"OfOtherNamespaces", Finding, list{elsewhere}, "", false},
		{"Range", Finding, list{own("old", `{"packages":["pkg:npm/lodash?vers=vers:npm/<4.17.21"]}`)}, "FindingException/old", true},
		{"Expression", Finding, list{own("port", `{"expression":"finding.attributes.port == 443"}`)}, "FindingException/port", true},
		{"UnderInvestigation", Finding, list{doubt}, "FindingException/doubt", false},
		{"Ended", Finding, list{ended}, "", false},
		{"NotYet", Finding, list{ahead}, "", false},
		{"Ending", Finding, list{ended, ending}, "FindingException/ending", true},
		{"Invalid", Finding, list{own("broken", `{"expression":"finding.nam == 'a'"}`), own("whole", broad)}, "FindingException/whole", true},
	}
}

func of(namespace, name, entry string) exception.Exception {
	e := exception.Exception{Namespace: namespace, Name: name}
	e.Spec.Status, e.Spec.Reason = settingsv1alpha2.ExceptionFalsePositive, "The scanner is wrong about "+name
	var x settingsv1alpha2.ExceptionEntry
	if err := json.Unmarshal([]byte(entry), &x); err != nil {
		panic(fmt.Errorf("entry of case %s: %w", name, err)) //nolint:forbidigo // the cases are constants
	}
	e.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{x}
	return e
}

// Of is KIND/NAME of a mark, as Want has it; empty for none.
func Of(m *exception.Mark) string {
	if m == nil {
		return ""
	}
	return m.Kind + "/" + m.Name
}
