import { Modal } from '@mantine/core';
import { useEffect, useState, type ReactNode } from 'react';
import { Button } from './control';
import { ProblemView } from './state';
import css from './dialog.module.css';

type DialogProps = {
  title: string;
  open: boolean;
  close: () => void;
  /** Of the button that acts. */
  action: string;
  act: () => void;
  busy?: boolean;
  error?: Error | null;
  /** Why it cannot be done now. */
  blocked?: string | undefined;
  danger?: boolean;
  /** Of the button that closes it, if "Cancel" could be mistaken for the action. */
  dismiss?: string;
  wide?: boolean;
  children: ReactNode;
};

/** Gives the focus back when a dialog ends. One that is mounted open is gone before Mantine could do so. */
export function useReturnFocus(): void {
  const [opener] = useState(() => document.activeElement);
  useEffect(() => () => {
    setTimeout(() => {
      if (opener instanceof HTMLElement && opener.isConnected && document.activeElement === document.body) opener.focus();
    });
  }, [opener]);
}

/** A dialog that asks before it acts. The focus returns to what opened it. */
export function Dialog({ title, open, close, action, act, busy, error, blocked, danger, dismiss = 'Cancel', wide, children }: DialogProps) {
  useReturnFocus();
  return (
    <Modal opened={open} onClose={close} title={title} size={wide ? 'lg' : 'md'} closeButtonProps={{ 'aria-label': 'Close' }}>
      <form className={css.form} onSubmit={(e) => { e.preventDefault(); if (!blocked && !busy) act(); }}>
        {children}
        {error && <ProblemView error={error} quiet />}
        <div className={css.foot}>
          {blocked && <span className="dim">{blocked}</span>}
          <span className="grow" />
          <Button onClick={close}>{dismiss}</Button>
          <Button type="submit" tone={danger ? 'danger' : 'primary'} busy={busy ?? false} blocked={blocked}
            onClick={undefined}>{action}</Button>
        </div>
      </form>
    </Modal>
  );
}
