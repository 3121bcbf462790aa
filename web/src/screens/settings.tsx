import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Settings() {
  return <Page title="Settings"><Empty title="This screen is not built yet" /></Page>;
}
