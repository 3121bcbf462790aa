import { Modal, Switch } from '@mantine/core';
import { useState } from 'react';
import { Kbd } from '../ui/control';
import { useReturnFocus } from '../ui/dialog';
import { word, Mark, type Kind } from '../ui/mark';
import { keysEnabled, setKeysEnabled, shortcuts } from './keys';
import css from './help.module.css';

const kinds: Kind[] = [
  'succeeded',
  'retried',
  'failed',
  'running',
  'accepted',
  'retrying',
  'planned',
  'due',
  'skipped',
  'missed',
  'cancelled',
  'late',
  'clock',
  'calendar',
];

export function Help({ close }: { close: () => void }) {
  useReturnFocus();
  const [on, setOn] = useState(keysEnabled());
  return (
    <Modal opened onClose={close} title="Keyboard and marks" size="lg" closeButtonProps={{ 'aria-label': 'Close' }}>
      <div className={css.columns}>
        <section>
          <h3>Keys</h3>
          <Switch
            size="xs"
            label="Single keys act"
            checked={on}
            onChange={(e) => {
              setOn(e.currentTarget.checked);
              setKeysEnabled(e.currentTarget.checked);
            }}
          />
          <dl className={css.list}>
            {shortcuts.map(([key, what]) => (
              <div key={key}>
                <dt>
                  <Kbd>{key}</Kbd>
                </dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
        </section>
        <section>
          <h3>Marks</h3>
          <dl className={css.list}>
            {kinds.map((k) => (
              <div key={k}>
                <dt>
                  <Mark kind={k} label="" />
                </dt>
                <dd>{word[k]}</dd>
              </div>
            ))}
          </dl>
        </section>
      </div>
    </Modal>
  );
}
