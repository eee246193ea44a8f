// SPDX-License-Identifier: Apache-2.0

package persistencedefectdojo

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/hooks/sdk"
)

// annotationPrefix begins the names of annotations that say where results go.
const annotationPrefix = "defectdojo.securecodebox.io/"

// Annotations that the cascading hook sets.
const annotationChain = "cascading.securecodebox.io/chain"

// Longest names that DefectDojo stores.
const (
	maxProductName    = 255
	maxEngagementName = 300
	maxTestTitle      = 255
)

// target is where the results of a Scan belong, by name.
type target struct {
	productType        string // empty: the one that every DefectDojo has
	product            string
	productDescription string
	productTags        []string
	engagement         string
	version            string
	engagementTags     []string
	dedupeOnEngagement bool
	testTitle          string
	testDescription    string
	minimumSeverity    string
	// scanType is DefectDojo's word for what goes up.
	scanType string
	// raw says that the raw result goes up, not the findings.
	raw  bool
	file string
}

// owner is what a Scan belongs to.
type owner struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Controller bool   `json:"controller"`
}

// details are fields of a Scan that the SDK does not read.
type details struct {
	Metadata struct {
		OwnerReferences []owner `json:"ownerReferences"`
	} `json:"metadata"`
	Status struct {
		RawResultFile         string `json:"rawResultFile"`
		RawResultDownloadLink string `json:"rawResultDownloadLink"`
	} `json:"status"`
}

func targetOf(scan *sdk.Scan) (*target, error) {
	var d details
	if err := json.Unmarshal(scan.Raw, &d); err != nil {
		return nil, fmt.Errorf("read Scan: %w", err)
	}
	annotation := func(name string) string { return strings.TrimSpace(scan.Metadata.Annotations[annotationPrefix+name]) }
	lasting, ownTest := lastingName(scan, d.Metadata.OwnerReferences)
	t := &target{
		productType:        annotation("product-type-name"),
		product:            text.CutRunes(or(annotation("product-name"), lasting), maxProductName),
		productDescription: or(annotation("product-description"), "Product was automatically created by Scanyard for its scan results."),
		productTags:        tags(annotation("product-tags")),
		engagement:         text.CutRunes(or(annotation("engagement-name"), lasting), maxEngagementName),
		version:            annotation("engagement-version"),
		engagementTags:     tags(annotation("engagement-tags")),
		dedupeOnEngagement: strings.EqualFold(annotation("engagement-deduplicate-on-engagement"), "true"),
		testTitle:          text.CutRunes(or(annotation("test-title"), lasting)+ownTest, maxTestTitle),
		testDescription:    testDescription(scan),
		scanType:           genericImport,
		file:               "findings.json",
	}
	if native, ok := nativeParsers[scan.Spec.ScanType]; ok {
		t.scanType, t.raw, t.file = native, true, rawFile(&d)
	}
	// The documentation of secureCodeBox has the second spelling.
	severity := or(annotation("minimum-severity"), annotation("minimum_severity"))
	if severity == "" {
		return t, nil
	}
	for _, known := range []string{"Critical", "High", "Medium", "Low", "Info"} {
		if strings.EqualFold(severity, known) {
			t.minimumSeverity = known
			return t, nil
		}
	}
	return nil, errors.New("annotation " + annotationPrefix + "minimum-severity is none of Critical, High, Medium, Low, Info")
}

// run is the name of a Scan that a ScheduledScan started, or of one further down its cascade: its name and a Unix time.
var run = regexp.MustCompile(`^(.+?)-[0-9]{10}(-.*)?$`)

// lastingName is a name that is the same in every run: of the ScheduledScan, of what started the cascade, or of the Scan
// itself. Scans of a cascade share it, so the field that distinguishes their tests is added.
func lastingName(scan *sdk.Scan, owners []owner) (name, ownTest string) {
	for _, o := range owners {
		switch o.Kind {
		case "ScheduledScan":
			return o.Name, ""
		case "Scan":
			name = o.Name
			if parts := run.FindStringSubmatch(o.Name); parts != nil {
				name = parts[1]
			}
			rules := strings.ReplaceAll(scan.Metadata.Annotations[annotationChain], ",", " > ")
			return name, " / " + strings.TrimSpace(strings.Join(append([]string{or(rules, scan.Spec.ScanType)}, scan.Spec.Parameters...), " "))
		}
	}
	return scan.Metadata.Name, ""
}

// testDescription holds for every run.
func testDescription(scan *sdk.Scan) string {
	return fmt.Sprintf("#### Automated scan\n\n* **Scan type:** `%s`\n* **Parameters:** `%s`\n",
		quotable(scan.Spec.ScanType), quotable(strings.Join(scan.Spec.Parameters, " ")))
}

// quotable is one line that ends no quotation of Markdown.
func quotable(s string) string { return strings.ReplaceAll(text.Line(s), "`", "'") }

func rawFile(d *details) string {
	if d.Status.RawResultFile != "" {
		return path.Base(d.Status.RawResultFile)
	}
	if link, err := url.Parse(d.Status.RawResultDownloadLink); err == nil && link.Path != "" && link.Path != "/" {
		return path.Base(link.Path)
	}
	return "raw-results"
}

func tags(text string) (list []string) {
	for tag := range strings.SplitSeq(text, ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			list = append(list, tag)
		}
	}
	return list
}

func or(text, fallback string) string {
	if text != "" {
		return text
	}
	return fallback
}
