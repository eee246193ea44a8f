// SPDX-License-Identifier: Apache-2.0

// Package images is the folder of image recipes, one folder for each image, and holds no code: its tests check that
// every recipe can be read and fits its lock, and run each wrapper script with the real shell and a stand-in for its
// tool. The command images (../cmd/images) builds from these recipes.
package images
