import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Load() {
  return <Page title="Load"><Empty title="This screen is not built yet" /></Page>;
}
