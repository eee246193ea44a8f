// SPDX-License-Identifier: Apache-2.0

// Package recipe decides what an image is made of:
//
//	images/<name>/image.yaml ─► Recipe, what a person wants: programs, packages, a base, files
//	images/<name>/image.lock ─► Lock, what that meant on the day it was looked up: versions, digests
//
// A recipe without its lock, or with a lock of other wishes, is an error that names the command which
// writes the lock again. Nothing here reads anything but the recipe's own folder.
package recipe
