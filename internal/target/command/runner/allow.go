package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	for _, allowed := range of(namespace, s.Programs) {
		// A link in the list allows what it points to.
		target, err := filepath.EvalSymlinks(allowed)
		if err == nil && below([]string{target}, path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not among the programs that this node runs%s; "+
		"its operator can add it to command.programs", name, forNamespace(namespace))
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
	image := spec.Image
	for _, allowed := range of(spec.Namespace, s.Images) {
		if start, open := strings.CutSuffix(allowed, "*"); image == allowed || open && strings.HasPrefix(image, start) {
			return nil
		}
	}
	return fmt.Errorf("%s is not among the images that this node runs%s; its operator can add it to command.images",
		image, forNamespace(spec.Namespace))
}
