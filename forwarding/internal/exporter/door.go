// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/scanyard/scanyard/forwarding/internal/queue"
)

const (
	fillingWindow = 10 * time.Minute
	fillingStep   = 10 * time.Second
)

// filling remembers how full the queue was, to tell when it will be full.
type filling struct {
	mu      sync.Mutex
	samples []sample
}

type sample struct {
	at    time.Time
	bytes int64
}

func (f *filling) watch(ctx context.Context, p *program) {
	ticker := time.NewTicker(fillingStep)
	defer ticker.Stop()
	warned := warnings{}
	for {
		now, u := p.o.Now(), p.queue.Usage()
		f.add(sample{now, u.Bytes})
		p.warnOfQuotas(warned, now, u)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (f *filling) add(s sample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.samples = append(f.samples, s)
	for len(f.samples) > 1 && s.at.Sub(f.samples[0].at) > fillingWindow {
		f.samples = f.samples[1:]
	}
}

// secondsToFull is how long free bytes last at the rate since the first sample; +Inf where the queue is not filling.
func (f *filling) secondsToFull(now sample, free int64) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.samples) == 0 {
		return math.Inf(1)
	}
	first := f.samples[0]
	seconds, grown := now.at.Sub(first.at).Seconds(), now.bytes-first.bytes
	if grown <= 0 || seconds <= 0 {
		return math.Inf(1)
	}
	return float64(max(free, 0)) / (float64(grown) / seconds)
}

// warnEvery is how often the log tells of a quota that is nearly used up.
const warnEvery = time.Minute

// warnings remember when the log told of a quota.
type warnings map[string]time.Time

// due tells whether the log is to say that more than 90 % of a quota are used.
func (w warnings) due(now time.Time, quota string, used, limit int64) bool {
	if used <= limit/10*9 {
		delete(w, quota)
		return false
	}
	if last, told := w[quota]; told && now.Sub(last) < warnEvery {
		return false
	}
	w[quota] = now
	return true
}

// warnOfQuotas tells of quotas that are nearly used up, of the queue and of each tenant.
func (p *program) warnOfQuotas(w warnings, now time.Time, u queue.Usage) {
	if limit := int64(p.s.queueMax); w.due(now, "", u.Bytes, limit) {
		p.log.Warn("more than 90 % of the queue are used", "bytes", u.Bytes, "limit", limit)
	}
	for name, t := range u.Tenants {
		if limit := int64(p.s.tenantMax); w.due(now, "tenant "+name, t.Bytes, limit) {
			p.log.Warn("more than 90 % of a tenant's quota are used", "tenant", name, "bytes", t.Bytes, "limit", limit)
		}
	}
}

// queueView is what /v1/queue shows.
type queueView struct {
	ID            string                `json:"id"`
	Records       uint64                `json:"records"`
	Bytes         int64                 `json:"bytes"`
	LimitBytes    int64                 `json:"limitBytes"`
	FreeBytes     int64                 `json:"freeBytes"`
	SecondsToFull *float64              `json:"secondsToFull"` // null: it is not filling
	Tenants       map[string]tenantView `json:"tenants"`
	Sinks         []sinkView            `json:"sinks"`
}

type tenantView struct {
	Records uint64 `json:"records"`
	Bytes   int64  `json:"bytes"`
}

type sinkView struct {
	Name        string     `json:"name"`
	Tenant      string     `json:"tenant"`
	Pending     uint64     `json:"pending"`
	Delivered   uint64     `json:"delivered"`
	DeadLetters int        `json:"deadLetters"`
	State       string     `json:"state"`
	Reason      string     `json:"reason"`
	Message     string     `json:"message"`
	NextTry     *time.Time `json:"nextTry"`
}

func (p *program) view() (queueView, error) {
	u := p.queue.Usage()
	backlogs, err := p.queue.Backlogs()
	if err != nil {
		return queueView{}, err
	}
	v := queueView{
		ID: p.queue.ID(), Records: u.Records, Bytes: u.Bytes, LimitBytes: int64(p.s.queueMax), FreeBytes: p.free(u.Bytes),
		Tenants: map[string]tenantView{}, Sinks: []sinkView{},
	}
	if seconds := p.filling.secondsToFull(sample{p.o.Now(), u.Bytes}, v.FreeBytes); !math.IsInf(seconds, 1) {
		v.SecondsToFull = &seconds
	}
	for name, t := range u.Tenants {
		v.Tenants[name] = tenantView(t)
	}
	seen := map[string]bool{}
	for _, b := range backlogs {
		row := sinkView{Name: b.Sink, Tenant: b.Tenant, Pending: b.Records, Delivered: b.Delivered, DeadLetters: b.DeadLetters}
		seen[b.Sink] = true
		v.Sinks = append(v.Sinks, p.withState(row))
	}
	for _, name := range p.sinks.names() {
		if !seen[name] {
			v.Sinks = append(v.Sinks, p.withState(sinkView{Name: name, Tenant: p.s.tenant}))
		}
	}
	return v, nil
}

func (p *program) withState(row sinkView) sinkView {
	s := p.sinks.state(row.Name, row.Tenant)
	row.State, row.Reason, row.Message = string(s.Health), string(s.Reason), s.Message
	if !s.NextTry.IsZero() {
		row.NextTry = &s.NextTry
	}
	return row
}

// free is what still fits: of the queue's bound, and of the volume without what is reserved.
func (p *program) free(bytes int64) int64 {
	free := int64(p.s.queueMax) - bytes
	if disk, err := p.queue.FreeBytes(); err == nil {
		free = min(free, disk-int64(p.s.reserve))
	}
	return max(free, 0)
}

// durable is true where an acknowledgement means that a record survives the end of the pod.
func (p *program) durable() bool { return p.queue.Durable() && !p.s.volatile }

// door is what the program answers by HTTP.
func (p *program) door() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !p.isReady() {
			http.Error(w, "the exporter takes no records", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
		if p.s.volatile {
			fmt.Fprintln(w, "not durable across reschedule: the volume of the queue ends with the pod")
		}
		if !p.queue.Durable() {
			fmt.Fprintln(w, "not durable: records are acknowledged before they are synced")
		}
	})
	mux.HandleFunc("GET /v1/queue", func(w http.ResponseWriter, _ *http.Request) {
		view, err := p.view()
		writeJSON(w, view, err)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.metrics.registry, promhttp.HandlerOpts{}))
	return mux
}

func writeJSON(w http.ResponseWriter, value any, err error) {
	body, failure := json.Marshal(value)
	if err == nil {
		err = failure
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // who does not read the answer has gone
}
