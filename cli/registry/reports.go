// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
)

// pageSize is how many objects one request asks for.
const pageSize = 500

// Resources that have documents beside their objects.
const (
	resourceSBOMs        = "sboms"
	resourceReports      = "vulnerabilityreports"
	resourceRepositories = "repositories"
)

// reader reads what the reports API has of registries.
type reader struct {
	client.WithWatch

	session   *session.Session
	namespace string
	documents rest.Interface
}

// newReader connects to the cluster; nothing is asked yet.
func newReader(s *session.Session) (*reader, error) {
	c, namespace, err := s.Connect()
	if err != nil {
		return nil, err
	}
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &reportsv1.SchemeGroupVersion, "/apis"
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // refusals are of it
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	documents, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, s.Explain(err)
	}
	return &reader{WithWatch: c, session: s, namespace: namespace, documents: documents}, nil
}

// eachImage reads the Images of a namespace, or of all with "", that have these fields.
func (r *reader) eachImage(ctx context.Context, namespace string, selected fields.Set, visit func(*reportsv1.Image) error) error {
	next := ""
	for {
		list := &reportsv1.ImageList{}
		o := &client.ListOptions{Namespace: namespace, FieldSelector: selected.AsSelector(), Limit: pageSize, Continue: next}
		if err := r.List(ctx, list, o); err != nil {
			return fmt.Errorf("list Images: %w", err)
		}
		for i := range list.Items {
			if err := visit(&list.Items[i]); err != nil {
				return err
			}
		}
		if next = list.Continue; next == "" {
			return nil
		}
	}
}

// open opens a document of an object; arguments are pairs of names and values, of which empty ones are left out.
func (r *reader) open(ctx context.Context, namespace, resource, name, part string, arguments ...string) (io.ReadCloser, error) {
	request := r.documents.Get().Namespace(namespace).Resource(resource).Name(name).SubResource(part).SetHeader("Accept", "*/*")
	for i := 0; i+1 < len(arguments); i += 2 {
		if arguments[i+1] != "" {
			request = request.Param(arguments[i], arguments[i+1])
		}
	}
	return request.Stream(ctx)
}

// maxLine bounds one finding.
const maxLine = 4 << 20

// visitFinding is called for a finding, and for what the server has sent of it. The bytes are valid during the call.
type visitFinding = func(f *reportsv1.VulnerabilityFinding, line []byte) error

// eachFinding reads the findings of a report, the worst first; arguments are those of the sub-resource.
func (r *reader) eachFinding(ctx context.Context, namespace, name string, visit visitFinding, arguments ...string) (err error) {
	body, err := r.open(ctx, namespace, resourceReports, name, "findings", append([]string{"format", "jsonl"}, arguments...)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		f := &reportsv1.VulnerabilityFinding{}
		if err := json.Unmarshal(lines.Bytes(), f); err != nil {
			return fmt.Errorf("read a finding of %s: %w", name, err)
		}
		if err := visit(f, lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the findings of %s: %w", name, err)
	}
	return nil
}

// severities from the worst to the least, as the reports API writes them.
var severities = []string{"CRITICAL", "HIGH", "MEDIUM", "LOW", "UNKNOWN"}

// rank is the place of a severity among the severities.
func rank(severity string) int {
	for i, s := range severities {
		if s == severity {
			return i
		}
	}
	return len(severities) - 1
}

// parseSeverity reads a severity of a flag in letters of any case; the first three letters are enough.
func parseSeverity(flag, text string) (string, error) {
	up := strings.ToUpper(strings.TrimSpace(text))
	for _, s := range severities {
		if up == s || len(up) >= 3 && strings.HasPrefix(s, up) {
			return s, nil
		}
	}
	return "", fmt.Errorf("--%s: severity %q is none of critical, high, medium, low, unknown", flag, text)
}

// counts are the vulnerabilities of an image by severity, in the order of severities.
func counts(v *reportsv1.VulnerabilitySummary) []int64 {
	all := make([]int64, len(severities))
	if v == nil {
		return all
	}
	for i, n := range []*int64{v.Critical, v.High, v.Medium, v.Low, v.Unknown} {
		if n != nil {
			all[i] = *n
		}
	}
	return all
}

// atLeast counts those of a severity and of worse ones.
func atLeast(all []int64, severity string) (n int64) {
	for i := range rank(severity) + 1 {
		n += all[i]
	}
	return n
}

// inWords is "1 critical, 2 high", or "no vulnerabilities".
func inWords(all []int64) string {
	var parts []string
	for i, n := range all {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(severities[i])))
		}
	}
	if len(parts) == 0 {
		return "no vulnerabilities"
	}
	return strings.Join(parts, ", ")
}
