// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/apis/finding"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/apis/names"
	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/forwarding/internal/mapping"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
	"github.com/scanyard/scanyard/podkit/kubeapi"
)

// Labels and annotations of these reports, beside those of policyreport.
const (
	LabelCluster    = "scanyard.io/cluster"
	LabelNamespace  = "scanyard.io/namespace"
	LabelSender     = "scanyard.io/sender"
	AnnotationChain = "scanyard.io/chain"

	manager = "scanyard-receiver"
)

// Bounds. A report is at most so large, as those of the hook persistence-reports are.
const (
	maxResults   = 1000
	maxBytes     = 1 << 20
	patience     = 20 * time.Second
	maxConflicts = 5
	pageSize     = "250"
	digits       = 16
	metadataOnly = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// Source is a store of a receiver.
type Source interface {
	Complete(visit func(store.Whole) error) error
	RecordsOf(authority string, id *forwardingv1.StreamId, visit func(*forwardingv1.Record) error) error
}

// Fleet writes the reports.
type Fleet struct {
	rules  Rules
	api    policyreport.API
	source Source
	client *kubeapi.Client
	log    *slog.Logger
	// done holds the chain of what is written, by the Scan; told the last thing that was said of a Scan.
	done, told map[string]string
}

// New makes a Fleet. The rules are known to be good.
func New(rules Rules, source Source, config *rest.Config, log *slog.Logger) (*Fleet, error) {
	api, err := rules.api()
	if err != nil {
		return nil, err
	}
	client, err := kubeapi.New(config, manager, kubeapi.Policy(patience))
	if err != nil {
		return nil, err
	}
	return &Fleet{rules: rules, api: api, source: source, client: client, log: log, done: map[string]string{}, told: map[string]string{}}, nil
}

// Run writes what is new, again and again until ctx ends.
func (f *Fleet) Run(ctx context.Context, every time.Duration) {
	timer := time.NewTicker(every)
	defer timer.Stop()
	for {
		f.Once(ctx)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// Once writes the reports of all Scans that are complete and not written yet. What fails is told, once, and tried again the next time.
func (f *Fleet) Once(ctx context.Context) {
	newest := map[string]store.Whole{}
	err := f.source.Complete(func(w store.Whole) error {
		if w.Stream.GetKind() != forwardingv1.StreamKind_STREAM_KIND_SCAN {
			return nil
		}
		key := sender(w) + "/" + w.Stream.GetUid()
		if known, ok := newest[key]; !ok || known.Stream.GetRevision() < w.Stream.GetRevision() {
			newest[key] = w
		}
		return nil
	})
	if err != nil {
		f.tell("", fmt.Sprintf("the store cannot be read: %v", err))
		return
	}
	for key, w := range newest {
		chain := hex.EncodeToString(w.Chain)
		if f.done[key] == chain || ctx.Err() != nil {
			continue
		}
		namespace := f.rules.namespace(w)
		if namespace == "" {
			f.tell(key, fmt.Sprintf("no rule is for cluster %q, tenant %q, authority %q", w.Stream.GetClusterId(), w.Stream.GetTenant(), w.Authority))
			continue
		}
		if err := f.write(ctx, w, namespace, chain); err != nil {
			f.tell(key, err.Error())
			continue
		}
		f.done[key] = chain
		delete(f.told, key)
	}
}

func (f *Fleet) tell(key, text string) {
	if f.told[key] != text {
		f.told[key] = text
		f.log.Warn("reports are not written", "why", text)
	}
}

// sender is whose a stream is: a digest of authority, cluster and tenant.
func sender(w store.Whole) string {
	encoded, _ := json.Marshal([]string{w.Authority, w.Stream.GetClusterId(), w.Stream.GetTenant()}) // texts are always JSON
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])[:digits]
}

// scan is what reports are made of.
type scan struct {
	store.Whole

	origin  policyreport.Origin
	path    kubeapi.Path
	labels  map[string]string
	chain   string
	mapping policyreport.Mapping
}

// write writes the reports of one Scan, and removes those that they replace.
func (f *Fleet) write(ctx context.Context, w store.Whole, namespace, chain string) error {
	s := scan{
		Whole: w, chain: chain, path: kubeapi.Path{"apis", f.api.Group, f.api.Version, "namespaces", namespace, f.api.Resource},
		labels: map[string]string{
			policyreport.LabelManagedBy: manager, LabelSender: sender(w),
			LabelCluster: names.LabelValue(w.Stream.GetClusterId()), LabelNamespace: names.LabelValue(w.Stream.GetTenant()),
		},
	}
	s.origin.APIVersion, s.origin.Kind = "execution.securecodebox.io/v1", "Scan"
	s.origin.Metadata.Name, s.origin.Metadata.Namespace, s.origin.Metadata.UID = w.Stream.GetName(), namespace, w.Stream.GetUid()
	there, err := f.list(ctx, &s)
	if err != nil {
		return err
	}
	if isThere(there, chain) {
		return nil
	}
	if err := f.describe(&s); err != nil {
		return err
	}
	plan, err := f.writeAll(ctx, &s)
	if err != nil {
		return err
	}
	there, err = f.list(ctx, &s)
	if err != nil {
		return err
	}
	for _, r := range policyreport.ReplacedBy(plan, there) {
		if err := f.delete(ctx, &s, r); err != nil {
			return err
		}
	}
	return nil
}

// isThere tells whether the reports of this chain are all there, and no others.
func isThere(reports []policyreport.Stored, chain string) bool {
	for _, r := range reports {
		chunks, err := strconv.Atoi(r.Metadata.Annotations[policyreport.AnnotationChunks])
		if err != nil || chunks != len(reports) || r.Metadata.Annotations[AnnotationChain] != chain {
			return false
		}
	}
	return len(reports) > 0
}

// describe reads what the summary says of the Scan.
func (f *Fleet) describe(s *scan) error {
	err := f.source.RecordsOf(s.Authority, s.Stream, func(r *forwardingv1.Record) error {
		summary := r.GetScanSummary()
		if summary == nil {
			return nil
		}
		s.origin.Spec.ScanType, s.origin.Metadata.Labels = summary.GetScanType(), summary.GetLabels()
		if at := summary.GetFinishedAt(); at != nil {
			s.origin.Status.FinishedAt = at.AsTime().UTC().Format(time.RFC3339)
		}
		if at := summary.GetCreatedAt(); at != nil {
			s.origin.Metadata.CreationTimestamp = at.AsTime().UTC().Format(time.RFC3339)
		}
		return nil
	})
	s.mapping = s.origin.Mapping(policyreport.Mapping{Informational: "warn"})
	return err
}

// writeAll goes over the records twice: the reports say how many of them there are. A server that takes smaller ones only gets smaller ones.
func (f *Fleet) writeAll(ctx context.Context, s *scan) (policyreport.Plan, error) {
	size := policyreport.Limits{Results: maxResults, Bytes: maxBytes}
	for {
		plan, err := f.writeChunks(ctx, s, size)
		if !apierrors.IsRequestEntityTooLargeError(err) {
			return plan, err
		}
		smaller, ok := size.Half()
		if !ok {
			return plan, fmt.Errorf("one result alone is too large: %w", err)
		}
		size = smaller
	}
}

func (f *Fleet) writeChunks(ctx context.Context, s *scan, size policyreport.Limits) (policyreport.Plan, error) {
	var plan policyreport.Plan
	digest := sha256.New()
	err := f.each(s, size, func(c *policyreport.Chunk) error {
		plan.Chunks++
		_, err := digest.Write(append(c.Encoded, '\n'))
		return err
	})
	if err != nil {
		return plan, err
	}
	plan.Run = hex.EncodeToString(digest.Sum(nil))
	return plan, f.each(s, size, func(c *policyreport.Chunk) error { return f.apply(ctx, s, plan, c) })
}

// each makes the chunks of the results of a Scan.
func (f *Fleet) each(s *scan, size policyreport.Limits, emit func(*policyreport.Chunk) error) error {
	chunks := &policyreport.Chunker{Limits: size, Emit: emit}
	decoder := finding.NewDecoder(0)
	err := f.source.RecordsOf(s.Authority, s.Stream, func(r *forwardingv1.Record) error {
		if r.GetResult() == nil {
			return nil
		}
		rebuilt, err := mapping.FindingOf(r.GetResult())
		if err != nil {
			return fmt.Errorf("record %d: %w", r.GetSequence(), err)
		}
		encoded, err := json.Marshal(rebuilt)
		if err != nil {
			return fmt.Errorf("record %d: %w", r.GetSequence(), err)
		}
		object, err := policyreport.Decode(decoder, encoded)
		if err != nil {
			return fmt.Errorf("record %d: %w", r.GetSequence(), err)
		}
		result, wanted := s.mapping.Result(object)
		if !wanted {
			return nil
		}
		return chunks.Add(&result)
	})
	if err != nil {
		return err
	}
	return chunks.Close(true)
}

// apply writes one report. The Scan is in another cluster: the report has neither owner nor scope.
func (f *Fleet) apply(ctx context.Context, s *scan, plan policyreport.Plan, c *policyreport.Chunk) error {
	r := policyreport.New(&s.origin, f.api, plan, true, c)
	r.Scope = nil
	sum := sha256.Sum256([]byte(sender(s.Whole) + "/" + s.Stream.GetUid()))
	r.Metadata.Name = "fleet-" + hex.EncodeToString(sum[:])[:2*digits] + "-" + r.Metadata.Labels[policyreport.LabelChunk]
	maps.Copy(r.Metadata.Labels, s.labels)
	r.Metadata.Annotations[AnnotationChain] = s.chain
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", r.Kind, r.Metadata.Name, err)
	}
	_, err = f.client.Do(ctx, s.path.Join(r.Metadata.Name), kubeapi.Request{
		Method: http.MethodPatch, ContentType: "application/apply-patch+yaml", Body: body,
		Query: url.Values{"fieldManager": {manager}, "force": {"true"}},
		Again: func(err error, attempts int) bool { return apierrors.IsConflict(err) && attempts < maxConflicts },
	})
	if err != nil {
		return fmt.Errorf("write %s %s: %w", r.Kind, r.Metadata.Name, err)
	}
	return nil
}

// list gives the reports of a Scan that are there.
func (f *Fleet) list(ctx context.Context, s *scan) ([]policyreport.Stored, error) {
	query := url.Values{"limit": {pageSize}, "labelSelector": {fmt.Sprintf("%s=%s,%s=%s,%s=%s",
		policyreport.LabelManagedBy, manager, LabelSender, s.labels[LabelSender], policyreport.LabelScan, names.LabelValue(s.Stream.GetName()))}}
	var mine []policyreport.Stored
	for {
		body, err := f.client.Do(ctx, s.path, kubeapi.Request{Accept: metadataOnly, Query: query})
		if err != nil {
			return nil, fmt.Errorf("list %ss: %w", f.api.Kind, err)
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []policyreport.Stored `json:"items"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("list %ss: %w", f.api.Kind, err)
		}
		for _, r := range page.Items { // another Scan may have had the name
			if r.Metadata.Annotations[policyreport.AnnotationScanUID] == s.Stream.GetUid() {
				mine = append(mine, r)
			}
		}
		if page.Metadata.Continue == "" {
			return mine, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// delete removes a report that is replaced.
func (f *Fleet) delete(ctx context.Context, s *scan, r policyreport.Stored) error {
	_, err := f.client.Do(ctx, s.path.Join(r.Metadata.Name), kubeapi.Request{Method: http.MethodDelete})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s, which is replaced: %w", f.api.Kind, r.Metadata.Name, err)
	}
	return nil
}
