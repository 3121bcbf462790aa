import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient } from '@tanstack/react-query';

/**
 * A change through the API. On success it says what happened and reads everything on the screen again; a failure stays
 * in `error`, and is announced if nothing shows it.
 */
export function useAction<A, R>(run: (arg: A) => Promise<R>, o: { done?: (result: R, arg: A) => string | void; quiet?: boolean } = {}) {
  const client = useQueryClient();
  return useMutation<R, Error, A>({
    mutationFn: run,
    onSuccess: (result, arg) => {
      const text = o.done?.(result, arg);
      if (text) notifications.show({ message: text });
      void client.invalidateQueries({ refetchType: 'active' });
    },
    onError: (e) => {
      if (!o.quiet) notifications.show({ message: e.message, color: 'red', autoClose: 10_000 });
    },
  });
}
