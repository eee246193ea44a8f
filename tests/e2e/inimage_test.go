// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// runInImage is what images of the tests run: this program, as a container.
func runInImage(name string, args []string) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	run, known := map[string]func(context.Context, []string) error{"upstream-parser": upstreamParser, "recorded": playRecorded}[name]
	if !known {
		fmt.Fprintln(os.Stderr, "there is no program", name)
		return 2
	}
	if err := run(ctx, args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func kindOf(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "execution.securecodebox.io", Version: "v1", Resource: name}
}

// upstreamParser does what secureCodeBox's parser SDK does on the wire, step by step,
// with the order of its calls and what it insists on: contract section 4.2.
func upstreamParser(ctx context.Context, args []string) error {
	name, namespace := os.Getenv("SCAN_NAME"), os.Getenv("NAMESPACE")
	if name == "" || namespace == "" || len(args) != 2 {
		return errors.New("want SCAN_NAME, NAMESPACE and two URLs")
	}
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	scan, err := c.Resource(kindOf("scans")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get Scan: %w", err)
	}
	resultType, _, err := unstructured.NestedString(scan.Object, "status", "rawResultType")
	if err != nil {
		return err
	}
	// The namespaced kind, also for clusterWide Scans.
	if _, err := c.Resource(kindOf("parsedefinitions")).Namespace(namespace).Get(ctx, resultType, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("get ParseDefinition: %w", err)
	}
	raw, err := http.Get(args[0])
	if err != nil {
		return errors.New("get raw result")
	}
	defer raw.Body.Close()
	content, err := io.ReadAll(raw.Body)
	if err != nil || raw.StatusCode != http.StatusOK {
		return fmt.Errorf("get raw result: %s, %w", raw.Status, err)
	}
	stats := map[string]any{"status": map[string]any{"findings": map[string]any{
		"count": 1, "severities": map[string]any{"informational": 1, "low": 0, "medium": 0, "high": 0}, "categories": map[string]any{"Upstream": 1},
	}}}
	patch, err := json.Marshal(stats)
	if err != nil {
		return err
	}
	if _, err := c.Resource(kindOf("scans")).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("patch status: %w", err)
	}
	return put(ctx, args[1], []map[string]any{{
		"id": "11111111-1111-4111-8111-111111111111", "parsed_at": time.Now().UTC().Format(time.RFC3339), "name": string(content),
		"category": "Upstream", "severity": "INFORMATIONAL",
		"scan": map[string]any{"created_at": scan.GetCreationTimestamp().UTC().Format(time.RFC3339), "name": name, "namespace": namespace, "scan_type": "sh"},
	}})
}

func put(ctx context.Context, url string, findings any) error {
	body, err := json.Marshal(findings)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the upload URL is not a URL")
	}
	req.Header.Set("Content-Type", "")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return errors.New("put findings")
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("put findings: %s", resp.Status)
	}
	return nil
}
