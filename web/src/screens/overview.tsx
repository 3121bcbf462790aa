import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Overview() {
  return <Page title="Overview"><Empty title="This screen is not built yet" /></Page>;
}
