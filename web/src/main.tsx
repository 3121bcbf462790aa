import '@mantine/core/styles/baseline.layer.css';
import '@mantine/core/styles/default-css-variables.layer.css';
import '@mantine/core/styles/global.layer.css';
import '@mantine/core/styles/UnstyledButton.layer.css';
import '@mantine/core/styles/ActionIcon.layer.css';
import '@mantine/core/styles/CloseButton.layer.css';
import '@mantine/core/styles/Paper.layer.css';
import '@mantine/core/styles/Popover.layer.css';
import '@mantine/core/styles/Combobox.layer.css';
import '@mantine/core/styles/Input.layer.css';
import '@mantine/core/styles/InlineInput.layer.css';
import '@mantine/core/styles/PasswordInput.layer.css';
import '@mantine/core/styles/ScrollArea.layer.css';
import '@mantine/core/styles/Overlay.layer.css';
import '@mantine/core/styles/ModalBase.layer.css';
import '@mantine/core/styles/Modal.layer.css';
import '@mantine/core/styles/Menu.layer.css';
import '@mantine/core/styles/Tooltip.layer.css';
import '@mantine/core/styles/FloatingIndicator.layer.css';
import '@mantine/core/styles/SegmentedControl.layer.css';
import '@mantine/core/styles/Switch.layer.css';
import '@mantine/core/styles/Tabs.layer.css';
import '@mantine/core/styles/Checkbox.layer.css';
import '@mantine/core/styles/Notification.layer.css';
import '@mantine/notifications/styles.layer.css';
import './style/tokens.css';
import './style/base.css';
import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { setNonce } from 'get-nonce';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { LiveProvider, newQueryClient } from './api/live';
import { SessionGate } from './api/session';
import { Login } from './frame/login';
import { schemeManager, theme } from './frame/theme';
import { router } from './router';
import { ProblemView, Skeleton } from './ui/state';

// The policy allows only style elements with the nonce of the page. Mantine takes it from getStyleNonce, and
// react-remove-scroll, which locks the page behind a dialog, from get-nonce.
const nonce = document.querySelector<HTMLMetaElement>('meta[property=csp-nonce]')?.nonce ?? '';
setNonce(nonce);

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <MantineProvider theme={theme} getStyleNonce={() => nonce} colorSchemeManager={schemeManager} defaultColorScheme="auto">
      <Notifications position="bottom-right" />
      <QueryClientProvider client={newQueryClient()}>
        <LiveProvider>
          <SessionGate login={<Login />} loading={<Skeleton />} failed={(e, retry) => <ProblemView error={e} retry={retry} />}>
            <RouterProvider router={router} />
          </SessionGate>
        </LiveProvider>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
