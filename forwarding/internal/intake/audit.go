// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/scanyard/scanyard/apis/decision"
	"github.com/scanyard/scanyard/forwarding/internal/audit"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
	"github.com/scanyard/scanyard/forwarding/sink"
)

const (
	// maxAuditBytes bounds what a kube-apiserver posts at once: 400 events of its default batch.
	maxAuditBytes = 64 << 20
	// quotaSeconds is how long a kube-apiserver is asked to wait where there is no room.
	quotaSeconds = 5
)

// Audit takes what the audit webhook of a kube-apiserver posts.
type Audit struct {
	Options Options
	Callers Callers
}

// ServeHTTP answers 200 when all records of the body are synced, and 429 where there is no room for them.
func (a *Audit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST takes an EventList of audit.k8s.io/v1", http.StatusMethodNotAllowed)
		return
	}
	tenant, ok := a.identify(r)
	if !ok {
		http.Error(w, "the call has no token that is known: send Authorization: Bearer TOKEN", http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAuditBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		http.Error(w, fmt.Sprintf("the body may have %d bytes: lower --audit-webhook-batch-max-size", maxAuditBytes), http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		return // the caller is gone
	}
	records, passedOver, err := audit.Read(body)
	if err != nil {
		a.Options.Observe.Rejected(codeMalformed)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for range passedOver {
		a.Options.Observe.Rejected(codePassedOver)
	}
	err = a.put(tenant, records)
	if _, full := errors.AsType[*queue.QuotaError](err); full {
		w.Header().Set("Retry-After", strconv.Itoa(quotaSeconds))
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

func (a *Audit) identify(r *http.Request) (tenant string, ok bool) {
	var named Named
	if a.Callers.Tokens != nil {
		if named, ok = a.Callers.Tokens.FindBearer(r.Header.Get("Authorization")); !ok {
			return "", false
		}
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return a.Callers.tenant(named, r.TLS.PeerCertificates[0]), true
	}
	return a.Callers.tenant(named, nil), true
}

// put stores all records, or none.
func (a *Audit) put(tenant string, records []*decision.Record) error {
	if len(records) == 0 {
		return nil
	}
	s := &queue.Submission{}
	release := func() {
		for _, e := range s.Entries {
			a.Options.Queue.Release(e.Tenant, e.Record.Size())
		}
	}
	for _, r := range records {
		line, err := decision.Append(nil, r)
		if err != nil {
			release()
			return err
		}
		owner := tenant
		if a.Options.ByNamespace && r.ResourceNamespace != "" {
			owner = r.ResourceNamespace
		}
		record := &queue.Record{ID: r.DecisionID, Time: a.Options.Now(), Line: line, Metadata: map[string]string{sink.MetadataProducer: auditProducer}}
		if err := a.Options.Queue.Reserve(owner, record.Size()); err != nil {
			release()
			return err
		}
		s.Entries = append(s.Entries, queue.Entry{Tenant: owner, Record: record})
	}
	synced := make(chan error, 1)
	s.Done = func(err error) { synced <- err }
	a.Options.Queue.Submit(s)
	if err := <-synced; err != nil {
		return err
	}
	for _, e := range s.Entries {
		a.Options.Observe.Enqueued("audit", e.Tenant, 1)
	}
	return nil
}

// auditProducer names the producer of records of the audit intake.
const auditProducer = "kube-apiserver"
