// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// refusedWith checks that a write was refused with a message.
func refusedWith(t *testing.T, when string, err error, says string) {
	t.Helper()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want a refusal that says %s", when, err, says)
	}
}

// TestLimitsOfExceptions writes exceptions within the limits of settings, and beyond.
func TestLimitsOfExceptions(t *testing.T) {
	serve(t)
	admitWriters(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "limits-"}}
	must(t, cluster.Client.Create(t.Context(), ns))
	clusterwide := object(t, "", setting("ClusterScanSetting", `{"exceptions": {"maxDuration": "30d", "requireSecondPerson": true, "maxSeverity": "MEDIUM"}}`))
	must(t, cluster.Client.Create(t.Context(), clusterwide))
	t.Cleanup(func() { must(t, cluster.Client.Delete(context.WithoutCancel(t.Context()), clusterwide)) })
	refusedWith(t, "a setting beyond the cluster's", cluster.Client.Create(t.Context(),
		object(t, ns.Name, setting("ScanSetting", `{"exceptions": {"maxDuration": "31d"}}`))), "spec.exceptions.maxDuration")
	must(t, cluster.Client.Create(t.Context(), object(t, ns.Name, setting("ScanSetting", `{"exceptions": {"allowedStatuses": ["Accepted"], "maxPerNamespace": 3}}`))))

	after := func(days int) string {
		return time.Now().Add(time.Duration(days) * 24 * time.Hour).UTC().Format(time.RFC3339)
	}
	fresh := func(name, end, entry string) *settingsv1alpha2.FindingException {
		e := &settingsv1alpha2.FindingException{}
		must(t, json.Unmarshal([]byte(excepted("FindingException", entry, end)), e))
		e.Namespace, e.Name = ns.Name, name
		return e
	}
	const low = `{"names": ["a"], "severities": ["LOW"]}`
	alice, bob := as(t, "alice"), as(t, "bob")
	refusedWith(t, "too long", alice.Create(t.Context(), fresh("a", after(31), low)), "exceptions last for at most 30d")
	refusedWith(t, "too severe", alice.Create(t.Context(), fresh("a", after(29), `{"names": ["a"]}`)), "spec.match.anyOf[0].severities: Required value")
	wrong := fresh("a", after(29), low)
	wrong.Spec.Status = settingsv1alpha2.ExceptionFalsePositive
	refusedWith(t, "another status", alice.Create(t.Context(), wrong), `spec.status: Unsupported value: "FalsePositive"`)
	e := fresh("a", after(10), low)
	must(t, alice.Create(t.Context(), e))
	extend := func(c client.Client) error {
		must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(e), e))
		e.Spec.ExpiresAt = &metav1.Time{Time: time.Now().Add(20 * 24 * time.Hour)}
		return c.Update(t.Context(), e)
	}
	refusedWith(t, "extended by who made it", extend(alice), "alice has made this exception: somebody else has to set a later end")
	must(t, extend(bob))
	if err := alice.Create(t.Context(), object(t, "", excepted("ClusterFindingException", `{"names": ["a"]}`, after(29))), client.DryRunAll); err != nil {
		t.Errorf("of the cluster, for all severities: %v", err)
	}
	refusedWith(t, "of the cluster, too long", alice.Create(t.Context(), object(t, "", excepted("ClusterFindingException", `{"names": ["a"]}`, after(31))), client.DryRunAll),
		"exceptions last for at most 30d")

	must(t, alice.Create(t.Context(), fresh("b", after(1), low)))
	must(t, alice.Create(t.Context(), fresh("c", after(1), low)))
	refusedWith(t, "one too many", alice.Create(t.Context(), fresh("d", after(1), low)), "and 3 are the most that it may have")
	e.Spec.Reason = "those that are stored can be changed"
	must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(e), e))
	must(t, bob.Update(t.Context(), e))
}

// TestHostileExceptions: the schema bounds what a server has to keep and to look at.
func TestHostileExceptions(t *testing.T) {
	serve(t)
	globs := make([]string, 10000)
	for i := range globs {
		globs[i] = "a" + strconv.Itoa(i) + "*"
	}
	list, err := json.Marshal(globs)
	must(t, err)
	entries := strings.Repeat(`{"names":["a"]},`, 100) + `{"names":["a"]}`
	good := excepted("FindingException", `{"names": ["a"]}`, "2099-01-01T00:00:00Z")
	for name, c := range map[string]struct{ text, says string }{
		"a reason of 2 MB":       {strings.Replace(good, "until the next release", strings.Repeat("x", 2<<20), 1), "spec.reason"},
		"a reason of 10 MB":      {strings.Replace(good, "until the next release", strings.Repeat("x", 10<<20), 1), "limit"},
		"10,000 globs":           {strings.Replace(good, `["a"]`, string(list), 1), "spec.match.anyOf[0].names"},
		"101 entries":            {strings.Replace(good, `{"names": ["a"]}`, entries, 1), "spec.match.anyOf"},
		"a glob of 2 KB":         {strings.Replace(good, `["a"]`, `["`+strings.Repeat("a", 2048)+`"]`, 1), "spec.match.anyOf[0].names[0]"},
		"no finding":             {strings.Replace(good, `{"names": ["a"]}`, `{}`, 1), "spec.match.anyOf[0]"},
		"a status in the object": {strings.Replace(good, `"spec"`, `"status": {"createdBy": "alice", "matched": 7}, "spec"`, 1), ""},
		"a reason of NULs":       {strings.Replace(good, "until the next release", strings.Repeat(`\u0000`, 20), 1), ""},
	} {
		o := object(t, "default", good)
		must(t, json.Unmarshal([]byte(c.text), &o.Object))
		o.SetNamespace("default")
		o.SetName("hostile")
		err := cluster.Client.Create(t.Context(), o, client.DryRunAll)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %.300v, want a refusal that says %s", name, err, c.says)
		}
		if status, ok := o.Object["status"]; ok && err == nil {
			t.Errorf("%s: the client's status is taken: %v", name, status)
		}
	}
}
