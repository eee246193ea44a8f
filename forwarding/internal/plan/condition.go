// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Reasons of the condition Forwarded, beside those that sinks give.
const (
	// ReasonComplete: every sink has the results.
	ReasonComplete = "Complete"
	// ReasonWaiting: the Scan waits for its turn, or for its results to be read.
	ReasonWaiting = "Waiting"
	// ReasonForwarding: the Scan is being sent.
	ReasonForwarding = "Forwarding"
	// ReasonHeld: the deletion of the Scan waits for its delivery. The operator writes that.
	ReasonHeld = "Held"
	// ReasonOutOfBounds: the cluster does not allow the sink.
	ReasonOutOfBounds = "OutOfBounds"
)

// Reasons why one Scan does not go on, beside those that sinks give.
const (
	// ResultsMissing: the results are not in storage.
	ResultsMissing sink.Reason = "ResultsMissing"
	// ResultsUnread: the results cannot be read now. The condition says Waiting then.
	ResultsUnread sink.Reason = "ResultsUnread"
)

const maxMessage = 1024

// problem is why a sink does not have the Scan.
type problem struct {
	sink, reason, message string
	since                 time.Time
	rank                  int
}

// conditionOf is the condition Forwarded.
func conditionOf(o *Observation, lanes []lane) metav1.Condition {
	var problems []problem
	var running, unread []string
	done, records := 0, int64(0)
	for i := range lanes {
		l := &lanes[i]
		if l.done() {
			done++
			records = max(records, l.entry.Records-l.entry.DeadLetters)
		}
		if p, has := problemOf(l); has {
			problems = append(problems, p)
			continue
		}
		switch {
		case l.done():
		case l.progress.Failure != nil:
			unread = append(unread, fmt.Sprintf("%s: %s", l.sink.ID, l.progress.Failure.Message))
		case l.progress.Running || l.entry.Sequence > 0:
			running = append(running, fmt.Sprintf("%s: %s of %s records", l.sink.ID, grouped(l.entry.Records), grouped(recordsOf(o.Scan))))
		}
	}
	have := fmt.Sprintf("%d of %d sinks have it", done, len(lanes))
	c := metav1.Condition{Type: executionv1.ConditionForwarded, Status: metav1.ConditionUnknown, Reason: ReasonWaiting, Message: have}
	switch {
	case len(problems) > 0:
		worst := slices.MinFunc(problems, func(a, b problem) int {
			if a.rank != b.rank {
				return a.rank - b.rank
			}
			return strings.Compare(a.sink, b.sink)
		})
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, worst.reason, worst.text()
		if len(problems) > 1 {
			c.Message += fmt.Sprintf("; and %d more sinks", len(problems)-1)
		}
	case done == len(lanes):
		c.Status, c.Reason = metav1.ConditionTrue, ReasonComplete
		c.Message = fmt.Sprintf("%s has all %s records", lanes[0].sink.ID, grouped(records))
		if done > 1 {
			c.Message = fmt.Sprintf("all %d sinks have all %s records", done, grouped(records))
		}
	case len(unread) > 0:
		c.Message += "; " + strings.Join(unread, "; ")
	case len(running) > 0:
		c.Reason = ReasonForwarding
		c.Message += "; " + strings.Join(running, "; ")
	}
	c.Message = c.Message[:min(len(c.Message), maxMessage)]
	return c
}

// problemOf tells what keeps a sink from having the Scan whole.
func problemOf(l *lane) (problem, bool) {
	p := problem{sink: l.sink.ID}
	switch failure := l.progress.Failure; {
	case l.done() && l.entry.DeadLetters == 0:
		return p, false
	case l.done():
		p.reason, p.rank = string(sink.RecordsRejected), rankOf(sink.Refused)
		p.message = fmt.Sprintf("%s of %s records were refused, the others are there", grouped(l.entry.DeadLetters), grouped(l.entry.Records))
		p.since = l.entry.CompletedAt.Time
	case l.sink.OutOfBounds != "":
		p.reason, p.message, p.rank = ReasonOutOfBounds, l.sink.OutOfBounds, rankOf(sink.Auth)
	case failure != nil && failure.Reason == ResultsUnread:
		return p, false
	case failure != nil:
		p.reason, p.message, p.since, p.rank = string(failure.Reason), failure.Message, l.progress.Since, rankOf(failure.Class)
	case l.sink.Health.Fails():
		h := &l.sink.Health
		p.reason, p.message, p.since, p.rank = string(h.Reason), h.Message, h.Since, rankOf(h.Class)
		if l.sink.Namespace == "" && (h.Reason == sink.SecretMissing || h.Reason == sink.SecretNotGranted) {
			// Names of the cluster's Secrets are not for teams.
			p.message = "a Secret or ConfigMap of this sink cannot be read: the status of the ClusterScanSetting says which"
		}
	default:
		return p, false
	}
	return p, true
}

// text says sink, what, since when, next try and what to do.
func (p *problem) text() string {
	text := fmt.Sprintf("%s: %s", p.sink, p.message)
	if !p.since.IsZero() {
		text += "; since " + p.since.UTC().Format(time.RFC3339)
	}
	if next := nextTry[p.reason]; next != "" {
		text += "; " + next
	} else {
		text += "; tried again by itself"
	}
	return text
}

// nextTry says when there is a next try, and what to do, for reasons that do not pass by themselves.
var nextTry = map[string]string{
	ReasonOutOfBounds:                      "nothing is sent before that is changed",
	string(sink.RecordsRejected):           "not tried again: look at the far end's words in the Events, and raise the epoch after a repair",
	string(sink.ResultsChanged):            "not tried again before the Scan is run again or the epoch is raised",
	string(ResultsMissing):                 "looked for again every 10 minutes: run the Scan again, or its parser",
	string(sink.TokenRejected):             "asked again every minute: put a valid token into the Secret, it is read anew by itself",
	string(sink.PermissionDenied):          "asked again every minute: allow the sender at the far end",
	string(sink.SecretMissing):             "read again every 10 seconds: make the Secret or ConfigMap",
	string(sink.SecretNotGranted):          "read again every 10 seconds: let the forwarder read the Secret",
	string(sink.UntrustedServer):           "asked again every minute: put the authority of the far end into authentication.serverCA",
	string(sink.ServerNameMismatch):        "asked again every minute: correct the endpoint or tls.serverName",
	string(sink.ServerCertificateExpired):  "asked again every minute: renew the certificate of the far end",
	string(sink.ClientCertificateMissing):  "asked again every minute: name a client certificate in authentication.mtlsClientCert",
	string(sink.ClientCertificateExpired):  "asked again every minute: renew the client certificate in its Secret",
	string(sink.ClientCertificateRejected): "asked again every minute: let the far end trust the authority of the client certificate",
	string(sink.NotCompatible):             "asked again every minute: look at the endpoint and the version of the far end",
	string(sink.RefusesEverything):         "single records are tried every minute: look at what the far end expects",
	string(sink.EndpointNotAllowed):        "tried again by itself: use another endpoint, or ask the cluster admin for allowNamespaces.endpoints",
}

// rankOf orders problems: the lower the worse.
func rankOf(class sink.Class) int {
	order := []sink.Class{sink.Auth, sink.Incompatible, sink.Refused, sink.Transport, sink.Overload}
	if i := slices.Index(order, class); i >= 0 {
		return i
	}
	return len(order)
}

// recordsOf is how many records the Scan has, without the closing one, as far as its status knows.
func recordsOf(scan *executionv1.Scan) int64 {
	if n := scan.Status.Findings.Count; n != nil {
		return *n + 1
	}
	return 1
}

// grouped writes a number with commas.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
