// SPDX-License-Identifier: Apache-2.0

package persistenceelastic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

const (
	// timestamp is how JavaScript writes times, always in UTC.
	timestamp = "2006-01-02T15:04:05.000Z"
	// maxAnswer has room for what is said about the largest batch.
	maxAnswer = 8 << 20
	// maxID is how many bytes an id may have.
	maxID = 512
)

// Handle writes the Scan and its findings.
func (h *handler) Handle(ctx context.Context, s *sdk.Session) error {
	r := &run{handler: h, session: s, client: s.Sender(delivery.Options{
		Remote: "Elasticsearch", MaxAnswer: maxAnswer, Secrets: h.secrets,
	})}
	at, err := s.StoredAt()
	if err != nil {
		return err
	}
	r.at = at.UTC().Format(timestamp)
	r.index = join(h.prefix, h.namespace, h.suffix.format(at))
	if h.misread {
		s.Notef("ELASTICSEARCH_INDEX_APPEND_NAMESPACE is false, which appends the namespace as any text does; leave the variable out to have none")
	}
	r.scan = s.Scan().Metadata.UID
	if r.scan == "" {
		r.scan = s.Key("document") // every API server gives UIDs; a name alone would come again with the next Scan
	}
	if err := r.createIndex(ctx); err != nil {
		return err
	}
	if err := r.writeScan(ctx); err != nil {
		return err
	}
	return r.writeFindings(ctx)
}

type run struct {
	*handler

	session *sdk.Session
	client  *delivery.Client
	at      string
	index   string
	scan    string // what ids begin with
}

// put sends one document, or an index, which is the same however often it is sent.
func (r *run) put(ctx context.Context, body delivery.Body, request delivery.Request, path ...string) error {
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	request.Method, request.URL, request.Body = http.MethodPut, r.address+"/"+strings.Join(path, "/"), body
	request.Header = r.headerOf("application/json")
	_, err := r.client.Do(ctx, &request)
	return err
}

func (r *run) headerOf(contentType string) http.Header {
	header := maps.Clone(r.header)
	header.Set("Content-Type", contentType)
	return header
}

// createIndex makes the index, unless it is there.
func (r *run) createIndex(ctx context.Context) error {
	err := r.put(ctx, delivery.Bytes(r.newIndex), delivery.Request{Accept: []int{http.StatusBadRequest}, Check: isThere}, r.index)
	if err != nil {
		return fmt.Errorf("create index %s: %w", r.index, err)
	}
	return nil
}

// isThere refuses a 400 that does not say that the index, or an alias of that name, is there already.
func isThere(a *delivery.Answer) error {
	if a.Status != http.StatusBadRequest {
		return nil
	}
	var answer struct {
		Error problem `json:"error"`
	}
	if err := a.JSON(&answer); err != nil {
		return err
	}
	switch kind := answer.Error.Type; {
	case kind == "resource_already_exists_exception", kind == "index_already_exists_exception":
		return nil
	case kind == "invalid_index_name_exception" && strings.Contains(answer.Error.Reason, "already exists as alias"):
		return nil
	}
	return &answer.Error
}

// scanDocument is what is written about the Scan. The names are what dashboards look for.
type scanDocument struct {
	Timestamp  string            `json:"@timestamp"`
	Type       string            `json:"type"`
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	ScanType   string            `json:"scan_type"`
	Parameters []string          `json:"parameters"`
	Labels     map[string]string `json:"labels"`
}

func (r *run) writeScan(ctx context.Context) error {
	scan := r.session.Scan()
	body, err := delivery.JSON(scanDocument{
		r.at, "scan", scan.Metadata.UID, scan.Metadata.Name, scan.Spec.ScanType, scan.Spec.Parameters, labelsOf(scan),
	})
	if err != nil {
		return err
	}
	if err := r.put(ctx, body, delivery.Request{}, r.index, "_doc", r.scan); err != nil {
		return fmt.Errorf("write Scan: %w", err)
	}
	return nil
}

func (r *run) writeFindings(ctx context.Context) error {
	encode, err := r.encoder()
	if err != nil {
		return err
	}
	return r.session.Deliver(ctx, r.client.NewBatcher(delivery.Limits{Count: r.batch}, r.bulk), encode)
}

// encoder makes two lines of a finding: where it goes, and the finding with what it is part of.
func (r *run) encoder() (sdk.Encode, error) {
	scan := r.session.Scan()
	labels, err := delivery.JSON(labelsOf(scan))
	if err != nil {
		return nil, err
	}
	decoder := finding.NewDecoder(0)
	var out []byte
	return func(id string, element []byte) ([]byte, error) {
		value, err := decoder.Value(element)
		if err != nil {
			return nil, fmt.Errorf("read finding: %w", err)
		}
		document, ok := value.(finding.Object)
		if !ok {
			return nil, errors.New("is not an object")
		}
		document.Set("@timestamp", r.at)
		document.Set("type", "finding")
		document.Set("scan_id", scan.Metadata.UID)
		document.Set("scan_name", scan.Metadata.Name)
		document.Set("scan_type", scan.Spec.ScanType)
		document.Set("scan_labels", finding.Raw(labels))
		out = append(out[:0], `{"index":{"_index":`...)
		out = finding.AppendString(out, r.index)
		out = append(out, `,"_id":`...)
		out = finding.AppendString(out, r.documentID(id))
		out = append(out, "}}\n"...)
		out, err = finding.AppendValue(out, document)
		return out, err
	}, nil
}

// labelsOf is an object also where there are none.
func labelsOf(scan *sdk.Scan) map[string]string {
	if scan.Metadata.Labels == nil {
		return map[string]string{}
	}
	return scan.Metadata.Labels
}

// documentID names a finding of this Scan among those of all.
func (r *run) documentID(id string) string {
	if whole := r.scan + "_" + id; len(whole) <= maxID {
		return whole
	}
	return r.scan + "_" + delivery.Key(id)
}

func (r *run) bulk(ctx context.Context, b *delivery.Batch) ([]delivery.Failure, error) {
	answer, err := r.client.Do(ctx, &delivery.Request{
		URL: r.address + "/_bulk?refresh=" + r.refresh, Header: r.headerOf("application/x-ndjson"), Body: b.Lines(),
	})
	if err != nil {
		return nil, fmt.Errorf("write findings: %w", err)
	}
	failures, err := r.failures(answer, b)
	if err != nil {
		return nil, fmt.Errorf("write findings: read the response of Elasticsearch: %w", err)
	}
	return failures, nil
}
