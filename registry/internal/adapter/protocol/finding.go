// SPDX-License-Identifier: Apache-2.0

package protocol

// Finding is one line of the findings of a match. The server adds fingerprint, firstSeenAt and suppressed. The order of the members is
// that of the contract.
type Finding struct {
	VulnerabilityID string         `json:"vulnerabilityID"`
	Aliases         []string       `json:"aliases,omitempty"`
	Package         FindingPackage `json:"package"`
	// Target is a file, or os.
	Target         string        `json:"target"`
	Class          string        `json:"class"`
	FixedVersions  []string      `json:"fixedVersions,omitempty"`
	Status         string        `json:"status"`
	Severity       string        `json:"severity"`
	SeveritySource string        `json:"severitySource,omitempty"`
	CVSS           []CVSS        `json:"cvss,omitempty"`
	Score          float64       `json:"score,omitempty"`
	CWEs           []string      `json:"cwes,omitempty"`
	Title          string        `json:"title,omitempty"`
	Description    string        `json:"description,omitempty"`
	PrimaryURL     string        `json:"primaryURL,omitempty"`
	References     []string      `json:"references,omitempty"`
	PublishedAt    string        `json:"publishedAt,omitempty"`
	ModifiedAt     string        `json:"modifiedAt,omitempty"`
	Layer          *FindingLayer `json:"layer,omitempty"`
	KEV            *KEV          `json:"kev,omitempty"`
	EPSS           *EPSS         `json:"epss,omitempty"`
}

// FindingPackage is what a vulnerability is in.
type FindingPackage struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	Type       string `json:"type"`
	PURL       string `json:"purl,omitempty"`
	SourceName string `json:"sourceName,omitempty"`
	Path       string `json:"path,omitempty"`
}

// CVSS is what a source says of a vulnerability.
type CVSS struct {
	Source  string  `json:"source"`
	Version string  `json:"version"`
	Vector  string  `json:"vector,omitempty"`
	Score   float64 `json:"score"`
}

// FindingLayer is the layer that brought the package.
type FindingLayer struct {
	Digest string `json:"digest,omitempty"`
	DiffID string `json:"diffID,omitempty"`
	Index  int    `json:"index"`
}

// KEV is an entry of a catalogue of vulnerabilities that are exploited.
type KEV struct {
	DateAdded string `json:"dateAdded"`
	DueDate   string `json:"dueDate,omitempty"`
}

// EPSS is how probable an exploit is.
type EPSS struct {
	Score      float64 `json:"score"`
	Percentile float64 `json:"percentile"`
	Date       string  `json:"date,omitempty"`
}

// The classes, statuses and severities of findings.
const (
	ClassOS     = "os-pkgs"
	ClassLang   = "lang-pkgs"
	ClassBinary = "binary"

	StatusFixed      = "fixed"
	StatusAffected   = "affected"
	StatusWillNotFix = "will_not_fix"
	StatusEndOfLife  = "end_of_life"
	StatusUnknown    = "unknown"

	Critical = "CRITICAL"
	High     = "HIGH"
	Medium   = "MEDIUM"
	Low      = "LOW"
	Unknown  = "UNKNOWN"

	// TargetOS is the target of packages of the distribution.
	TargetOS = "os"
)

// The bounds of a finding and of a report.
const (
	MaxDescription  = 4 << 10
	MaxReferences   = 50
	MaxFinding      = 64 << 10
	MaxFindings     = 100_000
	MaxPackages     = 500_000
	MaxWarnings     = 2_000
	MaxWarningsKept = 20
)

var severities = map[string]int{Critical: 0, High: 1, Medium: 2, Low: 3, Unknown: 4}

// Compare orders findings: severity, score (descending), vulnerability, package, target; then what else tells two apart.
func Compare(a, b Finding) int {
	switch {
	case severities[a.Severity] != severities[b.Severity]:
		return severities[a.Severity] - severities[b.Severity]
	case a.Score > b.Score:
		return -1
	case a.Score < b.Score:
		return 1
	}
	for _, pair := range [][2]string{
		{a.VulnerabilityID, b.VulnerabilityID},
		{a.Package.Name, b.Package.Name},
		{a.Target, b.Target},
		{a.Package.Type, b.Package.Type},
		{a.Package.Version, b.Package.Version},
		{a.Package.Path, b.Package.Path},
		{a.Package.PURL, b.Package.PURL},
	} {
		if pair[0] != pair[1] {
			if pair[0] < pair[1] {
				return -1
			}
			return 1
		}
	}
	return 0
}
