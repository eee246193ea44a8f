// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/scanyard/scanyard/console/internal/cluster"
)

// figures are what the console says of itself. None of them names a viewer.
type figures struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	upstream *prometheus.CounterVec
	signIns  *prometheus.CounterVec
	lives    prometheus.Gauge
}

func newFigures() *figures {
	f := &figures{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scanyard_console_requests_total", Help: "Answers by page and status.",
		}, []string{"page", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scanyard_console_request_seconds", Help: "How long answers took by page, without live parts.",
			Buckets: []float64{.01, .025, .05, .1, .15, .2, .3, .5, 1, 2.5, 10},
		}, []string{"page"}),
		upstream: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scanyard_console_upstream_requests_total", Help: "Requests to the API server for pages, by page and status of the answer.",
		}, []string{"page", "code"}),
		signIns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scanyard_console_sign_ins_total", Help: "Who has come in, and who has not, by way (token, provider).",
		}, []string{"way", "outcome"}),
		lives: prometheus.NewGauge(prometheus.GaugeOpts{Name: "scanyard_console_live_parts", Help: "Live parts of pages that are open now."}),
	}
	f.registry.MustRegister(f.requests, f.seconds, f.upstream, f.signIns, f.lives,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return f
}

func (f *figures) signedIn(way string, ok bool) {
	outcome := "refused"
	if ok {
		outcome = "signed-in"
	}
	f.signIns.WithLabelValues(way, outcome).Inc()
}

func (f *figures) live() (done func()) {
	f.lives.Inc()
	return f.lives.Dec
}

// status answers those who watch over the console.
func (f *figures) status() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(f.registry, promhttp.HandlerOpts{}))
	for _, path := range []string{"GET /healthz", "GET /readyz"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "ok\n") // who asked is gone, if it fails
		})
	}
	return mux
}

// watch counts what a handler answers. The page is its pattern, so that no address of a viewer's gets into figures.
func (f *figures) watch(next http.Handler, now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, seen := now(), &answer{ResponseWriter: w, code: http.StatusOK}
		r = r.WithContext(cluster.Counting(r.Context(), func(code int) { f.upstream.WithLabelValues(pageOf(r), strconv.Itoa(code)).Inc() }))
		next.ServeHTTP(seen, r)
		page := pageOf(r)
		f.requests.WithLabelValues(page, strconv.Itoa(seen.code)).Inc()
		if w.Header().Get("Content-Type") != "text/event-stream" {
			f.seconds.WithLabelValues(page).Observe(now().Sub(began).Seconds())
		}
	})
}

// pageOf is the page that a request is for, once it is known who answers it.
func pageOf(r *http.Request) string {
	_, page, _ := strings.Cut(r.Pattern, " ")
	return page
}

// answer remembers the status of an answer.
type answer struct {
	http.ResponseWriter

	code int
}

// WriteHeader remembers the status, too.
func (a *answer) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap lets parts of an answer be sent at once.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
