// SPDX-License-Identifier: Apache-2.0

// gatekeeper is an admission webhook as policy engines have one: it takes AdmissionReviews, decides by a few rules, and hands each decision to
// an exporter, which keeps it until the far end has it. See the README beside.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/apis/decision"
	"github.com/scanyard/scanyard/forwarding/client"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	listen := flag.String("listen", "127.0.0.1:8443", "address of the webhook")
	cert := flag.String("tls-cert", "", "file with the certificate; empty: plain text, for trying")
	key := flag.String("tls-key", "", "file with the private key")
	flag.Parse()
	exporter, err := client.New(client.Config{URL: os.Getenv("DECISION_EXPORT_URL"), Producer: "gatekeeper-webhook"})
	if err != nil {
		return fmt.Errorf("DECISION_EXPORT_URL: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	server := &http.Server{Handler: &webhook{exporter: exporter}, ReadHeaderTimeout: 5 * time.Second}
	ending := make(chan error, 1)
	go func() {
		<-ctx.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		ending <- errors.Join(server.Shutdown(bounded), exporter.Close(bounded)) // waits until all is acknowledged
	}()
	if *cert == "" {
		err = server.Serve(listener)
	} else {
		err = server.ServeTLS(listener, *cert, *key)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ending
}

// review is an AdmissionReview of admission.k8s.io/v1, as far as it is needed here. Kubernetes' own types would bring its libraries along.
type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID       string `json:"uid"`
	Kind      struct{ Kind string }
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Operation string          `json:"operation"`
	Object    json.RawMessage `json:"object"`
	UserInfo  struct {
		Username string `json:"username"`
	} `json:"userInfo"`
}

type response struct {
	UID     string  `json:"uid"`
	Allowed bool    `json:"allowed"`
	Status  *status `json:"status,omitempty"`
}

type status struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// webhook answers reviews.
type webhook struct{ exporter *client.Client }

// maxReview bounds a review. The API server takes objects of up to 3 MiB.
const maxReview = 8 << 20

// ServeHTTP decides a review, and logs each violation. Log never blocks: an exporter that is away keeps nobody from creating pods.
func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in review
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReview)).Decode(&in); err != nil || in.Request == nil {
		http.Error(w, "the body is no AdmissionReview", http.StatusBadRequest)
		return
	}
	all := violations(in.Request.Kind.Kind, in.Request.Object)
	out := review{APIVersion: in.APIVersion, Kind: in.Kind, Response: &response{UID: in.Request.UID, Allowed: len(all) == 0}}
	for _, v := range all {
		h.exporter.Log(record(in.Request, v))
		if out.Response.Status == nil {
			out.Response.Status = &status{Code: http.StatusForbidden, Message: "[" + v.Constraint + "] " + v.Message}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(out); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "the answer was not sent:", err)
	}
}

// record is what the exporter is told of a violation.
func record(in *request, v violation) *decision.Record {
	details, err := json.Marshal(v.Details)
	if err != nil {
		details = nil // rules make nothing that is not JSON
	}
	return &decision.Record{
		EventType: decision.WebhookViolation, Message: v.Message, ConstraintKind: v.Kind, ConstraintName: v.Constraint, ConstraintAction: "deny",
		ResourceKind: in.Kind.Kind, ResourceNamespace: in.Namespace, ResourceName: in.Name, Input: in.Object, Details: details,
	}
}
