import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Runs() {
  return <Page title="Runs"><Empty title="This screen is not built yet" /></Page>;
}
