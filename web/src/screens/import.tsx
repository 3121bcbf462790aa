import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Import() {
  return <Page title="Import"><Empty title="This screen is not built yet" /></Page>;
}
