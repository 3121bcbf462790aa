import { Page } from '../ui/page';
import { Empty } from '../ui/state';

export default function Editor() {
  return <Page title="Editor"><Empty title="This screen is not built yet" /></Page>;
}
