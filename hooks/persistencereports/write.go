// SPDX-License-Identifier: Apache-2.0

package persistencereports

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/names"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/podkit/kubeapi"
)

const (
	fieldManager = "persistence-reports"
	// patience is how long a server that is away or busy is waited for with each request, after its Retry-After.
	patience = 10 * time.Minute
	// maxConflicts is how often a write is repeated that another one came before.
	maxConflicts = 5
	pageSize     = "250"
	metadataOnly = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// errNoGroup says that no server serves reports.
var errNoGroup = errors.New("the cluster does not serve them: install charts/reports or the PolicyReport CRDs")

// handle writes the reports of one Scan, then deletes those that they replace.
func (h *handler) handle(ctx context.Context, s *sdk.Session, config *rest.Config) error {
	client, err := kubeapi.New(config, fieldManager, kubeapi.Policy(patience))
	if err != nil {
		return err
	}
	o, err := originOf(s.Scan())
	if err != nil {
		return err
	}
	w := &writer{
		handler: h, session: s, client: client, origin: o, mapping: o.Mapping(h.mapping),
		path: kubeapi.Path{"apis", h.api.Group, h.api.Version, "namespaces", o.Metadata.Namespace, h.api.Resource},
	}
	if s.TakesNoNotice() {
		o.TakesNoNotice()
	}
	p, err := w.writeAll(ctx)
	if err != nil {
		return err
	}
	s.Notef("%d %ss are written", p.Chunks, h.api.Kind)
	return w.clean(ctx, p)
}

// originOf reads what reports say about their Scan.
func originOf(scan *sdk.Scan) (*policyreport.Origin, error) {
	o := &policyreport.Origin{APIVersion: "execution.securecodebox.io/v1", Kind: "Scan"}
	if err := json.Unmarshal(scan.Raw, o); err != nil {
		return nil, fmt.Errorf("read Scan: %w", err)
	}
	return o, nil
}

// writer writes the reports of one Scan.
type writer struct {
	*handler

	session *sdk.Session
	client  *kubeapi.Client
	origin  *policyreport.Origin
	mapping policyreport.Mapping
	path    kubeapi.Path
}

// writeAll writes all chunks, smaller ones where the server wants smaller ones.
func (w *writer) writeAll(ctx context.Context) (policyreport.Plan, error) {
	size := w.chunk
	for {
		p, err := w.writeChunks(ctx, size)
		if !apierrors.IsRequestEntityTooLargeError(err) {
			return p, err
		}
		smaller, ok := size.Half()
		if !ok {
			return p, fmt.Errorf("one result alone is too large: %w", err)
		}
		w.session.Notef("the server takes no reports of %d results and %d bytes; trying %d and %d", size.Results, size.Bytes, smaller.Results, smaller.Bytes)
		size = smaller
	}
}

// writeChunks goes over the findings twice: the reports say how many of them there are.
func (w *writer) writeChunks(ctx context.Context, size policyreport.Limits) (policyreport.Plan, error) {
	var p policyreport.Plan
	digest := sha256.New()
	err := w.each(ctx, size, func(c *policyreport.Chunk) error {
		p.Chunks++
		_, err := digest.Write(append(c.Encoded, '\n'))
		return err
	})
	if err != nil {
		return p, err
	}
	p.Run = hex.EncodeToString(digest.Sum(nil))
	return p, w.each(ctx, size, func(c *policyreport.Chunk) error { return w.apply(ctx, p, c) })
}

// each makes the chunks of the findings.
func (w *writer) each(ctx context.Context, size policyreport.Limits, emit func(*policyreport.Chunk) error) error {
	chunks := &policyreport.Chunker{Limits: size, Emit: emit}
	decoder := finding.NewDecoder(0)
	err := w.session.EachReported(ctx, func(element []byte, mark *exception.Mark) error {
		f, err := policyreport.Decode(decoder, element)
		if err != nil {
			return err
		}
		r, wanted := w.mapping.Result(f)
		if !wanted {
			return nil
		}
		r.Except(mark)
		return chunks.Add(&r)
	})
	if err != nil {
		return err
	}
	return chunks.Close(w.zero)
}

// apply writes one report. Its fields are this hook's, whoever wrote them before.
func (w *writer) apply(ctx context.Context, p policyreport.Plan, c *policyreport.Chunk) error {
	r := policyreport.New(w.origin, w.api, p, w.keep, c)
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", r.Kind, r.Metadata.Name, err)
	}
	_, err = w.client.Do(ctx, w.path.Join(r.Metadata.Name), kubeapi.Request{
		Method: http.MethodPatch, ContentType: "application/apply-patch+yaml", Body: body,
		Query: url.Values{"fieldManager": {fieldManager}, "force": {"true"}},
		Again: func(err error, attempts int) bool { return apierrors.IsConflict(err) && attempts < maxConflicts },
	})
	if err != nil {
		return fmt.Errorf("write %s %s: %w", r.Kind, r.Metadata.Name, explained(err))
	}
	return nil
}

// explained distinguishes a group that is not served from a namespace that is gone: both are not found.
func explained(err error) error {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return err
	}
	if details := status.Status().Details; details != nil && details.Kind == "namespaces" {
		return err
	}
	return fmt.Errorf("%w (%w)", errNoGroup, err)
}

// clean deletes the reports that are replaced.
func (w *writer) clean(ctx context.Context, p policyreport.Plan) error {
	mine, err := w.list(ctx, policyreport.LabelScan, w.origin.Metadata.Name)
	if err != nil {
		return err
	}
	gone := policyreport.ReplacedBy(p, mine)
	if schedule := w.origin.Schedule(); schedule != "" {
		all, err := w.list(ctx, policyreport.LabelSchedule, schedule)
		if err != nil {
			return err
		}
		history := 1
		if w.keep {
			history = w.history
		}
		gone = append(gone, policyreport.Outlived(w.origin, all, history)...)
	}
	for _, r := range gone {
		if err := w.delete(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// list returns the metadata of this hook's reports with a label.
func (w *writer) list(ctx context.Context, label, value string) ([]policyreport.Stored, error) {
	query := url.Values{
		"labelSelector": {policyreport.LabelManagedBy + "=scanyard," + label + "=" + names.LabelValue(value)}, "limit": {pageSize},
	}
	var all []policyreport.Stored
	for {
		body, err := w.client.Do(ctx, w.path, kubeapi.Request{Accept: metadataOnly, Query: query})
		if err != nil {
			return nil, fmt.Errorf("list %ss: %w", w.api.Kind, explained(err))
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []policyreport.Stored `json:"items"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("list %ss: %w", w.api.Kind, err)
		}
		all = append(all, page.Items...)
		if page.Metadata.Continue == "" {
			return all, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// delete removes a report, unless another client has written it since it was listed.
func (w *writer) delete(ctx context.Context, r policyreport.Stored) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions",
		"preconditions": map[string]string{"uid": r.Metadata.UID, "resourceVersion": r.Metadata.ResourceVersion},
	})
	if err != nil {
		return fmt.Errorf("encode the deletion of %s %s: %w", w.api.Kind, r.Metadata.Name, err)
	}
	_, err = w.client.Do(ctx, w.path.Join(r.Metadata.Name), kubeapi.Request{Method: http.MethodDelete, Body: body})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s %s, which is replaced: %w", w.api.Kind, r.Metadata.Name, err)
	}
	return nil
}
