package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// allow reports why a command may not run. The runner checks this itself, because the process that starts
// programs must decide which may run.
func (s *Settings) allow(spec *Spec) error {
	if spec.Network && !s.Network {
		return errors.New("the node allows no network; its operator can, with command.network")
	}
	if spec.Image != "" {
		return s.allowImage(spec)
	}
	path, err := s.program(spec.Program, spec.Namespace)
	if err != nil {
		return err
	}
	// Run the file that was checked: a link on the path may change.
	spec.Program = path
	return nil
}

// program returns the file of a program, with all links resolved, or an error if it may not run.
func (s *Settings) program(name, namespace string) (string, error) {
	if !filepath.IsAbs(name) {
		return "", errors.New("the program is not an absolute path")
	}
	path, err := filepath.EvalSymlinks(name)
	if err != nil {
		// The runner sees only what is listed.
		return "", fmt.Errorf("there is no program %s on this node, or it is not among the programs that this node runs%s; "+
			"its operator can add it to command.programs", name, forNamespace(namespace))
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return "", fmt.Errorf("%s is not a program: not a file that can be executed", name)
	}
	if s.lists(path, namespace) {
		return path, nil
	}
	return "", fmt.Errorf("%s is not among the programs that this node runs%s; "+
		"its operator can add it to command.programs", name, forNamespace(namespace))
}

// lists reports whether a file, with all links resolved, is on the list.
func (s *Settings) lists(path, namespace string) bool {
	return slices.ContainsFunc(of(namespace, s.Programs), func(allowed string) bool {
		// A link in the list allows what it points to.
		target, err := filepath.EvalSymlinks(allowed)
		return err == nil && below([]string{target}, path)
	})
}

// ListsProgram reports whether jobs of a namespace may name a program. It need not be on this node.
func (s *Settings) ListsProgram(name, namespace string) bool {
	path, err := filepath.EvalSymlinks(name)
	return err == nil && s.lists(path, namespace) || err != nil && below(of(namespace, s.Programs), name)
}

// ListsImage reports whether jobs of a namespace may name an image.
func (s *Settings) ListsImage(name, namespace string) bool {
	return slices.ContainsFunc(of(namespace, s.Images), func(allowed string) bool {
		start, open := strings.CutSuffix(allowed, "*")
		return name == allowed || open && strings.HasPrefix(name, start)
	})
}

func forNamespace(name string) string {
	if name == "" {
		return ""
	}
	return " for the namespace " + name
}

func (s *Settings) allowImage(spec *Spec) error {
	if s.Socket == "" {
		return errors.New("this node runs no containers; its operator can let it, with command.container_socket")
	}
	if s.ListsImage(spec.Image, spec.Namespace) {
		return nil
	}
	return fmt.Errorf("%s is not among the images that this node runs%s; its operator can add it to command.images",
		spec.Image, forNamespace(spec.Namespace))
}
