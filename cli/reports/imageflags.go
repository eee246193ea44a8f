// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
)

// imageFlags ask for findings of images only.
type imageFlags struct {
	images reportsv1alpha1.ImagesQuery
	// pkg is NAME or NAME@RANGE.
	pkg, pkgType string
	// fixable is nil where the flag is not given.
	fixable *bool
}

func (f *imageFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.images.Registry, "registry", "", "findings of images of this Registry")
	flags.StringVar(&f.images.Repository, "repository", "", "findings of images of this repository, such as shop/api")
	flags.StringVar(&f.images.Tag, "tag", "", "findings of images with this tag")
	flags.StringVar(&f.images.Platform, "platform", "", "findings of images of this platform, such as linux/amd64")
	flags.StringVar((*string)(&f.images.Presence), "presence", "", "findings of images that are Present, Superseded or Gone")
	flags.StringVar(&f.pkg, "package", "", "findings of a package of images, also of a range of its versions, such as lodash@<4.17.21")
	flags.StringVar(&f.pkgType, "package-type", "", "findings of packages of a type, such as npm or deb")
	flags.BoolFunc("fixable", "findings of images that a newer version of the package fixes; =false: that none fixes", func(text string) error {
		fixable, err := strconv.ParseBool(text)
		f.fixable = &fixable
		return err
	})
}

// ask narrows a question to what the flags say.
func (f *imageFlags) ask(spec *reportsv1alpha1.FindingQuerySpec) {
	if f.images != (reportsv1alpha1.ImagesQuery{}) {
		spec.Images = &f.images
	}
	name, versions := f.pkg, ""
	if i := strings.LastIndexByte(f.pkg, '@'); i > 0 { // the names of packages may begin with @, as @babel/core
		name, versions = f.pkg[:i], f.pkg[i+1:]
	}
	if f.pkg != "" || f.pkgType != "" {
		spec.Package = &reportsv1alpha1.PackageQuery{Name: name, Type: f.pkgType, VersionRange: versions}
	}
	spec.Fixable = f.fixable
}

// explain names the flag that the server has refused: which versions are meant it knows from the packages that are installed.
func (f *imageFlags) explain(err error) error {
	if said := session.Refused(err, "spec.package.versionRange"); said != "" {
		return fmt.Errorf("--package %s: %s", f.pkg, said)
	}
	return err
}
