// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/distribution/reference"
)

const (
	// maxNameLength and maxAppLength are secureCodeBox's: existing ScheduledScans keep their names.
	maxNameLength = 62
	maxAppLength  = 20
	// fewestDigits of an image's digest have to be left in a name, so that two images do not
	// share one. Where fewer would be, hashDigits of it and as many of a hash of the rest are.
	fewestDigits = 6
	hashDigits   = 10
	// maxReference is more than any registry allows; what is longer is not looked at.
	maxReference = 1024

	latest = "latest"
	at     = "-at-"
)

var digestPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{2,128}$`)

// Image is .Image in templates. The field names are those of secureCodeBox.
type Image struct {
	// Id names the image so that every container runtime finds it: repository and
	// digest, or repository and tag where no digest is known.
	Id string
	// Name is what the task definition says.
	Name string
	// Digest is the digest of the manifest, such as sha256:…; empty if ECS does not know it.
	Digest string
	// Version is the tag; the digest where the task definition names one and no tag.
	Version string
	// Registry is the host, docker.io where the task definition names none.
	Registry string
	// Repository is registry and path, such as docker.io/library/nginx.
	Repository string
	// ShortName is the path alone, such as library/nginx.
	ShortName string
}

// newImage makes sense of the name in a task definition and of the digest that ECS has resolved it to.
func newImage(name, digest string) (Image, error) {
	if len(name) > maxReference {
		return Image{}, fmt.Errorf("the name of an image has %d characters, more than %d", len(name), maxReference)
	}
	tagged, inName, _ := strings.Cut(name, "@")
	if digest == "" {
		digest = inName
	}
	for _, d := range []string{digest, inName} {
		if d != "" && !digestPattern.MatchString(d) {
			return Image{}, fmt.Errorf("image %q: %q is not a digest", name, d)
		}
	}
	named, err := reference.ParseNormalizedNamed(tagged)
	if err != nil {
		return Image{}, fmt.Errorf("image %q: %w", name, err)
	}
	img := Image{
		Name: name, Digest: digest, Version: latest,
		Registry: reference.Domain(named), Repository: named.Name(), ShortName: reference.Path(named),
	}
	switch tag, ok := named.(reference.Tagged); {
	case ok:
		img.Version = tag.Tag()
	case inName != "":
		img.Version = inName
	}
	img.Id = img.Repository + ":" + img.Version
	if digest != "" {
		img.Id = img.Repository + "@" + digest
	}
	return img, nil
}

// hash identifies the image in names: the hexadecimal part of its digest, or a digest of its reference
// if ECS has none.
func (i Image) hash() string {
	if _, hex, ok := strings.Cut(i.Digest, ":"); ok {
		return strings.ToLower(hex)
	}
	return digits(i.Id)
}

// key identifies an image. Equal digests under one path are one image, wherever they were pulled from
// and under whatever tag.
func (i Image) key() imageKey { return imageKey(i.ShortName + "@" + i.hash()) }

// scanName is the name of the ScheduledScan of an image and a scan configuration, as in
// secureCodeBox: <path, 20 characters>-<configuration>-at-<digest>, cut to 62. A long
// name of a configuration gives way to the digest, with a hash in place of what is cut.
func scanName(i Image, config string) string {
	app := i.ShortName[:min(maxAppLength, len(i.ShortName))]
	prefix := app + "-" + config
	if room := maxNameLength - len(at); len(prefix) > room-fewestDigits {
		prefix = prefix[:room-2*hashDigits-1] + "-" + digits(prefix)[:hashDigits]
	}
	name := strings.NewReplacer(".", "-", "/", "-", "_", "-").Replace(strings.ToLower(prefix)) + at + i.hash()
	return strings.TrimRight(name[:min(maxNameLength, len(name))], "-")
}

func digits(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
