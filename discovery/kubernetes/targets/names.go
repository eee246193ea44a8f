// SPDX-License-Identifier: Apache-2.0

package targets

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	// maxImageScanName is where secureCodeBox cuts the names of image scans.
	maxImageScanName = 62
	// maxAppName is where it cuts the image's own name in them.
	maxAppName = 20
	// maxServiceScanName leaves room for what the Scans' names add, in a name of 253.
	maxServiceScanName = 240
	// minDigits of a digest, or of a hash, distinguish names.
	minDigits = 10
	// elsewhereDigits distinguish names of namespaces that do not trust each other in a third namespace.
	elsewhereDigits = 16
)

// serviceScanName is the name of the ScheduledScan for a port of a Service.
func serviceScanName(service, config string, port int32) string {
	return fit(fmt.Sprintf("%s-service-%s-port-%d", service, config, port), maxServiceScanName)
}

// routeScanName is the name for a host of an Ingress or a route. A hash distinguishes hosts and ports that
// look alike without their dots.
func routeScanName(kind Kind, route, config, host string, port int32) string {
	target := fmt.Sprintf("%s:%d", host, port)
	name := fmt.Sprintf("%s-%s-%s-host-%s", route, strings.ToLower(string(kind)), config, strings.ReplaceAll(host, ".", "-"))
	return cut(name, maxServiceScanName-minDigits-1) + "-" + hash(target)
}

// imageScanName is that for an image: as in secureCodeBox where enough of the digest is
// left when it is cut.
func imageScanName(app, config, digest string) string {
	app = dashes(app)
	if len(app) > maxAppName {
		app = app[:maxAppName]
	}
	prefix := app + "-" + dashes(config) + "-at-"
	if len(prefix)+minDigits > maxImageScanName {
		return fit(prefix+digest, maxImageScanName)
	}
	name := prefix + digest
	if len(name) > maxImageScanName {
		name = name[:maxImageScanName]
	}
	return name
}

// inNamespace is the name of a ScheduledScan in a namespace that has those of other namespaces too. Joined by a dash alone,
// "web" of team-a and "a-web" of team would be equal; a slash is in no name, so a hash over it distinguishes them.
func inNamespace(source, name string, limit int) string {
	return cut(source+"-"+name, limit-elsewhereDigits-1) + "-" + digits(source+"/"+name, elsewhereDigits)
}

// formerlyInNamespace is the name of earlier releases, which had no such hash.
func formerlyInNamespace(source, name string, limit int) string {
	return fit(source+"-"+name, limit)
}

// temporarySecretName is the name of the Secret that the extractor makes for a run. It is cut as in
// secureCodeBox if the rest still identifies the image.
func temporarySecretName(scan string) string {
	const prefix = "temporary-secret-"
	name := prefix + scan
	if at := strings.Index(
		name,
		"-at-",
	); at > 0 && at+len("-at-")+minDigits <= maxImageScanName && len(name) > maxImageScanName &&
		!strings.Contains(name[at+len("-at-"):], "-") {
		return name[:maxImageScanName]
	}
	return fit(name, maxImageScanName)
}

// fit cuts a name that is too long; a hash of the whole keeps it its own.
func fit(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	return cut(name, limit-minDigits-1) + "-" + hash(name)
}

func cut(name string, limit int) string {
	if len(name) > limit {
		name = name[:limit]
	}
	return strings.TrimRight(name, "-.")
}

func hash(text string) string { return digits(text, minDigits) }

func digits(text string, n int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:n]
}

// dashes replaces what image names may hold and names of objects may not.
func dashes(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '.', '/', '_', ':':
			return '-'
		default:
			return r
		}
	}, s)
}
