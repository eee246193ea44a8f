// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/cloudevent"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Door is the HTTP side of a receiver: what is stored, how much, and whether all is well.
type Door struct {
	// Store is nil where nothing is kept.
	Store    *store.Store
	Counters func() store.Counters
	// ReadTokens let others than this machine read; nil: nobody else.
	ReadTokens *Tokens
	Log        *slog.Logger
}

// Handler serves the door.
func (d *Door) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &collector{d})
	ok := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", ok)
	mux.HandleFunc("GET /readyz", ok)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /v1/records", d.reader(d.records))
	mux.HandleFunc("GET /v1/streams", d.reader(d.streams))
	mux.HandleFunc("GET /v1/counters", d.reader(d.counters))
	return mux
}

// reader lets those in who may read: this machine, or a token.
func (d *Door) reader(serve func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if d.ReadTokens != nil && !d.ReadTokens.Allows(r.Header.Get("Authorization")) {
			http.Error(w, "reading needs one of the tokens of --read-tokens", http.StatusUnauthorized)
			return
		}
		if d.ReadTokens == nil && !fromHere(r.RemoteAddr) {
			http.Error(w, "records are read from this machine only: others need --read-tokens", http.StatusForbidden)
			return
		}
		if err := serve(w, r); err != nil {
			d.Log.Error("an answer broke off", "path", r.URL.Path, "error", err)
			http.Error(w, "the store cannot be read", http.StatusInternalServerError)
		}
	}
}

func fromHere(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func (d *Door) records(w http.ResponseWriter, r *http.Request) error {
	after, err := number(r, "after", 0)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil
	}
	limit, err := number(r, "limit", 0)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil
	}
	last := after
	if d.Store != nil {
		last = max(after, d.Store.LastNumber())
	}
	if limit > 0 && last-after > limit {
		last = after + limit
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Last-N", strconv.FormatUint(last, 10))
	if d.Store == nil {
		return nil
	}
	return WriteRecords(w, d.Store, after, last)
}

func number(r *http.Request, name string, otherwise uint64) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s must be a number, is %q", name, text)
	}
	return value, nil
}

// WriteRecords writes a CloudEvent in a line for each record after the number after, up to last. Its key n is the number of arrival.
func WriteRecords(to io.Writer, from *store.Store, after, last uint64) error {
	line := make([]byte, 0, 4096)
	return from.Records(after, last, func(arrival store.Arrival) error {
		record := sink.Record{
			EventID: arrival.Record.GetEventId(), Sequence: arrival.Record.GetSequence(), ObservedAt: arrival.Received, Message: arrival.Record,
		}
		if observed := arrival.Record.GetObservedAt(); observed.IsValid() {
			record.ObservedAt = observed.AsTime()
		}
		var err error
		line, err = cloudevent.Append(line[:0], arrival.Stream, record)
		if err != nil {
			return fmt.Errorf("record %d: %w", arrival.Number, err)
		}
		line = append(line[:len(line)-1], `,"n":`...)
		line = strconv.AppendUint(line, arrival.Number, 10)
		_, err = to.Write(append(line, '}', '\n'))
		return err
	})
}

// StreamLine is what is told of a stream.
type StreamLine struct {
	ClusterID    string `json:"clusterId"`
	Tenant       string `json:"tenant"`
	Kind         string `json:"kind"`
	Name         string `json:"name"`
	UID          string `json:"uid"`
	Revision     uint32 `json:"revision"`
	Completeness string `json:"completeness"`
	Records      uint64 `json:"records"`
	Missing      uint64 `json:"missing"`
	Chain        string `json:"chain"`
}

// Streams lists all streams. The list is never nil.
func Streams(from *store.Store) ([]StreamLine, error) {
	lines := []StreamLine{}
	err := from.Streams(func(state *forwardingv1.StreamState) error {
		id := state.GetStream()
		lines = append(lines, StreamLine{
			ClusterID: id.GetClusterId(), Tenant: id.GetTenant(), Kind: forwardingv1.KindName(id.GetKind()), Name: id.GetName(), UID: id.GetUid(),
			Revision: id.GetRevision(), Completeness: CompletenessName(state.GetCompleteness()), Records: state.GetRecords(), Missing: state.GetMissing(),
			Chain: hex.EncodeToString(state.GetChain()),
		})
		return nil
	})
	return lines, err
}

// CompletenessName is the verdict as people and metrics read it: OPEN, COMPLETE, INCOMPLETE or CONFLICT.
func CompletenessName(verdict forwardingv1.Completeness) string {
	return strings.TrimPrefix(verdict.String(), "COMPLETENESS_")
}

func (d *Door) streams(w http.ResponseWriter, _ *http.Request) error {
	lines := []StreamLine{}
	if d.Store != nil {
		var err error
		if lines, err = Streams(d.Store); err != nil {
			return err
		}
	}
	return answer(w, lines)
}

func (d *Door) counters(w http.ResponseWriter, _ *http.Request) error { return answer(w, d.Counters()) }

func answer(w http.ResponseWriter, value any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(value)
}

// collector gives the metrics of the specification.
type collector struct{ door *Door }

var (
	recordsMetric = prometheus.NewDesc("scanyard_receiver_records_total", "Records that came in, by what became of them.", []string{"outcome"}, nil)
	streamsMetric = prometheus.NewDesc("scanyard_receiver_streams", "Streams by their verdict.", []string{"completeness"}, nil)
	bytesMetric   = prometheus.NewDesc("scanyard_receiver_store_bytes", "Bytes that the store takes on disk.", nil, nil)
)

// Describe names the metrics.
func (*collector) Describe(to chan<- *prometheus.Desc) {
	to <- recordsMetric
	to <- streamsMetric
	to <- bytesMetric
}

// Collect reads the metrics.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	counters := c.door.Counters()
	for outcome, value := range map[string]uint64{
		"stored": counters.Stored, "duplicate": counters.Duplicates, "conflict": counters.Conflicts, "rejected": counters.Rejected,
	} {
		to <- prometheus.MustNewConstMetric(recordsMetric, prometheus.CounterValue, float64(value), outcome)
	}
	if c.door.Store == nil {
		to <- prometheus.MustNewConstMetric(bytesMetric, prometheus.GaugeValue, 0)
		return
	}
	to <- prometheus.MustNewConstMetric(bytesMetric, prometheus.GaugeValue, float64(c.door.Store.Bytes()))
	verdicts, err := c.door.Store.Completeness()
	if err != nil {
		to <- prometheus.NewInvalidMetric(streamsMetric, err)
		return
	}
	for verdict := range forwardingv1.Completeness_name {
		if verdict := forwardingv1.Completeness(verdict); verdict != forwardingv1.Completeness_COMPLETENESS_UNSPECIFIED {
			to <- prometheus.MustNewConstMetric(streamsMetric, prometheus.GaugeValue, float64(verdicts[verdict]), CompletenessName(verdict))
		}
	}
}
